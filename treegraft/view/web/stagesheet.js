// The side panel while an event is shown that moves no nodes: a decision, a rescoring, a new frontier.

const MOST_ROWS = 12;

const SHEETS = new Map([["decide", decisionSheet], ["rescore", rescoreSheet], ["reselect", reselectSheet]]);

// Which panel stands at an event: its own sheet, or none.
const eventPanel = (round, number) => (SHEETS.has(round.events[number]?.kind) ? `event ${number}` : "legend");

function eventSheet(view, round, number, choose) {
  const body = SHEETS.get(round.events[number]?.kind);
  return body ? [element("section", { class: "tg-stage-sheet" }, body(view, round, number, choose))] : [];
}

function decisionSheet(view, round, number) {
  const event = round.events[number];
  const time = (value) => `${decimal(value)} ms`;
  return [
    element("h3", {}, event.title),
    element("dl", { class: "tg-facts" }, facet("Schedule", event.rule), facet("Calls left", `${event.left}`),
      event.margin === null ? null : facet("Margin", time(event.margin)),
      event.threshold === null ? null : facet("Threshold", time(event.threshold)),
      facet("Frontier", [ring("stayed"), ` ${event.from.length} ${event.from.length === 1 ? "node" : "nodes"}`])),
    event.features.length ? element("table", { class: "tg-moves", "aria-label": "What the scheduler looked at" },
      element("tbody", {}, event.features.map(([name, value]) => element("tr", {}, element("td", {}, name.replaceAll("_", " ")),
        element("td", { class: "tg-number" }, decimal(value)))))) : null,
  ];
}

function rescoreSheet(view, round, number, choose) {
  const event = round.events[number], moves = movesOf(round, number);
  const rose = moves.filter(({ before, after }) => rises(before, after)).length;
  const counts = [["risen", rose, "rose"], ["fallen", moves.length - rose, "fell"],
    ["lost", event.unreachable.length, `that ${drafterName(view, event.drafter)} cannot propose`]].filter(([, count]) => count);
  const far = moves.slice().sort((one, other) => Math.abs(other.to - other.from) - Math.abs(one.to - one.from) || one.to - other.to);
  return [
    element("h3", {}, `Rescored by ${drafterName(view, event.drafter)}`),
    element("ul", { class: "tg-legend" }, counts.map(([name, count, words]) => element("li", {}, moveSample(name), element("span", {}, `${count} ${words}`)))),
    moves.length ? moveTable(view, round, far.slice(0, MOST_ROWS), choose) : element("p", { class: "tg-quiet" }, "No score changed."),
    moves.length > MOST_ROWS ? element("p", { class: "tg-quiet" }, `and ${moves.length - MOST_ROWS} more`) : null,
  ];
}

function moveTable(view, round, moves, choose) {
  const rows = moves.map(({ node, before, after, from, to }) => element("tr", {},
    element("td", {}, link(chip(piece(view, round.token[node]), 14), () => choose(node))),
    element("td", { class: "tg-number" }, `${bareScore(before)} → ${bareScore(after)}`),
    element("td", { class: "tg-number" }, from === to ? `${to}` : `${from} → ${to}`)));
  return element("table", { class: "tg-moves", "aria-label": "Scores and ranks before and after" },
    element("thead", {}, element("tr", {}, ["token", "score", "rank"].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, rows));
}

function reselectSheet(view, round, number, choose) {
  const { before, after, pool } = round.events[number];
  const kept = new Set(after), old = new Set(before);
  const parts = [["stayed", after.filter((node) => old.has(node)), "stayed"],
    ["joined", after.filter((node) => !old.has(node)), "new"],
    ["left", before.filter((node) => !kept.has(node)), "left"]].filter(([, nodes]) => nodes.length);
  return [
    element("h3", {}, "The frontier, chosen anew"),
    element("p", { class: "tg-quiet" }, `The best ${after.length} of ${pool} by score.`),
    parts.map(([name, nodes, words]) => element("div", { class: "tg-group" },
      element("p", {}, ring(name), ` ${nodes.length} ${words}`),
      element("p", { class: "tg-chips" }, nodes.slice(0, MOST_ROWS).map((node) => link(chip(piece(view, round.token[node]), 14), () => choose(node)))))),
  ];
}
