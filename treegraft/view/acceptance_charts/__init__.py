"""Charts of the Acceptance page, a module for each of its parts; each returns a `view.charts.Chart`."""
