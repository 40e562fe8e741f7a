// The side panel while an event is shown that adds no nodes: a decision, a rescoring, a new frontier, a gate, a graft, a
// sampled acceptance, rows that were learned.

const MOST_ROWS = 12;

const SHEETS = new Map([["decide", decisionSheet], ["rescore", rescoreSheet], ["reselect", reselectSheet],
  ["gate", gateSheet], ["graft", graftSheet], ["accept", acceptSheet], ["learn", learnSheet]]);

// What draws the sheet of an event; a greedy acceptance has nothing to replay.
const sheetOf = (event) => (event?.kind === "accept" && !event.tried ? undefined : SHEETS.get(event?.kind));

// Which panel stands at an event: its own sheet, or none.
const eventPanel = (round, number) => (sheetOf(round.events[number]) ? `event ${number}` : "legend");

function eventSheet(view, round, number, choose) {
  const body = sheetOf(round.events[number]);
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
      element("tbody", {}, event.features.map(([name, value]) => element("tr", {}, element("td", {}, termOf(name, view.features[name])),
        element("td", { class: "tg-number" }, value))))) : null,
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
    element("p", { class: "tg-scale-words tg-quiet" }, "worst score ", element("span", { class: "tg-scale" }), " best"),
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

// All gates of the round, with a bar and a tick for the threshold where both are probabilities.
function gateSheet(view, round, number) {
  const gates = round.events.map((event, place) => ({ ...event, place })).filter(({ kind }) => kind === "gate");
  const event = round.events[number];
  const rows = gates.slice(0, MOST_ROWS).map((gate) => element("tr", { class: gate.place === number ? "tg-self" : undefined },
    element("td", {}, gate.stage || `${gate.layer}`), element("td", { class: "tg-number" }, level(gate.value)),
    element("td", {}, gateMeter(gate)), element("td", { class: "tg-number" }, level(gate.threshold)),
    element("td", {}, gate.stop ? "stop" : "go")));
  return [
    element("h3", {}, event.title),
    element("table", { class: "tg-moves", "aria-label": "Gates of this round" },
      element("thead", {}, element("tr", {}, ["gate", event.measure, "", "threshold", ""].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows)),
    gates.length > MOST_ROWS ? element("p", { class: "tg-quiet" }, `and ${gates.length - MOST_ROWS} more`) : null,
  ];
}

function gateMeter({ value, threshold }) {
  const fits = [value, threshold].every((one) => one >= 0 && one <= 1);
  return fits ? element("span", { class: "tg-meter tg-gate", style: `--p:${value}; --t:${threshold}` }) : "";
}

function graftSheet(view, round, number, choose) {
  const event = round.events[number], tokens = event.nodes.slice(0, MOST_ROWS);
  const share = (count, name) => (count ? element("span", { class: `tg-share-${name}`, style: `flex-grow:${count}` }) : null);
  return [
    element("h3", {}, event.title),
    element("div", { class: "tg-share", role: "img", "aria-label": `${event.drafted} drafted to ${event.retrieved} retrieved` },
      share(event.drafted, "drafted"), share(event.retrieved, "retrieved")),
    element("dl", { class: "tg-facts" }, facet("Share drafted", `${event.drafted}`), facet("Share retrieved", `${event.retrieved}`),
      facet("Retrieved", `${event.nodes.length}`), facet("Drafted, too", `${event.merged.length}`),
      facet("Given to others", `${event.replaced}`), facet("Empty places", `${event.shortfall}`)),
    tokens.length ? element("div", {}, element("p", { class: "tg-quiet" }, `Retrieved by ${drafterName(view, event.drafter)}`),
      element("p", { class: "tg-chips tg-found-list" }, tokens.map((node) => link(chip(piece(view, round.token[node]), 14), () => choose(node))),
        event.nodes.length > MOST_ROWS ? element("span", { class: "tg-quiet" }, `and ${event.nodes.length - MOST_ROWS} more`) : null)) : null,
  ];
}

// Each changed row, its new tokens set off, above what it was.
function learnSheet(view, round, number) {
  const event = round.events[number];
  const tokens = (row, old) => element("p", { class: "tg-chips" }, row.length
    ? row.map((token) => element("span", { class: old && !old.includes(token) ? "tg-fresh-token" : undefined }, chip(piece(view, token), 14)))
    : absent("nothing"));
  const rows = event.rows.map(([token, row, before]) => [
    element("dt", {}, chip(piece(view, token), 14)),
    element("dd", {}, tokens(row, before), before === null ? null
      : element("div", { class: "tg-before" }, element("span", { class: "tg-quiet" }, "before:"), tokens(before)))]);
  return [
    element("h3", {}, `Learned by ${drafterName(view, event.drafter)}`),
    element("p", { class: "tg-quiet" }, "After a token, the target\u2019s best next ones; new ones are outlined."),
    rows.length ? element("ul", { class: "tg-legend" }, element("li", {}, moveSample("learned"), element("span", {}, "in the tree: tokens with a changed row"))) : null,
    rows.length ? element("dl", { class: "tg-rows" }, rows) : element("p", { class: "tg-quiet" }, "No row changed."),
    event.more ? element("p", { class: "tg-quiet" }, `and ${event.more} more`) : null,
  ];
}
