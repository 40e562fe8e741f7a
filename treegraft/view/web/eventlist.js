// The events of a round as a list, one sentence each: an alternative to the slider.

class EventList {
  constructor(view, round, go) {
    this.rows = round.events.map((event, number) => element("button", { class: "tg-listed", onclick: () => go(number) },
      element("span", { class: "tg-number tg-quiet" }, `${number}`), element("span", {}, eventLine(view, round, number))));
    this.root = element("ol", { class: "tg-event-list", "aria-label": "Events of the round" }, this.rows.map((row) => element("li", {}, row)));
  }

  show(number) {
    const had = this.root.contains(this.root.getRootNode().activeElement);
    this.rows.forEach((row, place) => {
      row.classList.toggle("tg-here", place === number);
      row.classList.toggle("tg-later", place > number);
      if (place === number) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    const here = this.rows[number];
    if (!here) return;
    if (had) here.focus({ preventScroll: true });
    requestAnimationFrame(() => keepInSight(this.root, here));
  }
}
