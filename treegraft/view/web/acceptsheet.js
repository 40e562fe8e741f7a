// The side panel of a sampled acceptance: child after child, the target's distribution that it met, the random number that
// decided, and what a rejection left for the next one.

const MOST_BARS = 5;
const MOST_TRIED = 60;

function acceptSheet(view, round, number, choose) {
  const { rule, tried } = round.events[number];
  const shown = trials(round, rule.name, tried.slice(0, MOST_TRIED));
  return [
    element("h3", {}, `Accepted by the rule “${rule.name}”`),
    rule.help ? element("p", { class: "tg-quiet" }, `${rule.help[0].toUpperCase()}${rule.help.slice(1)}.`) : null,
    rule.lossy ? element("p", { class: "tg-note" }, `${rule.lossy[0].toUpperCase()}${rule.lossy.slice(1)}.`) : null,
    round.expects ? element("dl", { class: "tg-facts" }, facet("Accepted", `${round.accepted}`),
      facet("Expected", `${decimal(round.expected[0])}, from the recorded probabilities`)) : null,
    shown.map((trial, place) => [
      place && shown[place - 1].parent === trial.parent ? null : element("h4", {}, "After ", chip(piece(view, round.token[trial.parent]), 18)),
      trialView(view, round, rule.name, trial, choose)]),
    tried.length > MOST_TRIED ? element("p", { class: "tg-quiet" }, `and ${tried.length - MOST_TRIED} more`) : null,
    bonusTrial(view, round, rule.name, tried, choose),
  ];
}

// The tried children, each with the distribution that it met: [token, log-probability] pairs, best first, and the tokens that
// stood at zero by then. A threshold leaves the distribution as it is.
function trials(round, rule, tried) {
  const left = new Map(), zero = new Map();
  return tried.map(([node, p, q, u, accepted, residual]) => {
    const parent = round.parent[node];
    const met = left.get(parent) ?? bestAfter(round, parent);
    const before = zero.get(parent) ?? [];
    if (!accepted && rule !== "typical") {
      left.set(parent, residual);
      zero.set(parent, [...new Set([...before, round.token[node]])]);
    }
    return { node, p, q, u, accepted, residual, parent, met, zero: before };
  });
}

const bestAfter = (round, node) => {
  const [tokens, logprobs] = round.walk[node] ?? [[], []];
  return tokens.map((token, place) => [token, logprobs[place]]);
};

const shareOf = (units) => (units === null ? "0" : prob(units));

// How likely the rule was to accept a child: p, or p / q, which `traversal` records for the whole path.
const winning = ({ p, q }) => (p === null ? 0 : Math.min(1, Math.exp((p - (q ?? 0)) / NATS)));

function trialView(view, round, rule, trial, choose) {
  const token = round.token[trial.node], fate = trial.accepted ? "accepted" : "rejected";
  const p = rule === "traversal" ? new Map(trial.met).get(token) : trial.p;
  const numbers = [p === undefined ? null : `p ${shareOf(p)}`, trial.q === null ? null : `q ${prob(trial.q)}`].filter(Boolean).join(" · ");
  const open = trial.accepted || !trial.zero.length;
  return element("details", { class: `tg-trial tg-trial-${fate}`, open },
    element("summary", {}, marker(round.origin[trial.node], fate), chip(piece(view, token), 14),
      element("span", { class: `tg-fate tg-fate-${fate}` }, trial.accepted ? "accepted" : "not accepted"),
      element("span", { class: "tg-number tg-quiet" }, numbers), verdictMeter(rule, trial)),
    bars(view, trial.met, { token, p, q: trial.q, fate, act: () => choose(trial.node) }, trial.zero),
    trial.accepted || rule === "typical" ? null : element("p", { class: "tg-quiet" },
      trial.q === null ? [chip(piece(view, token), 14), " goes to zero; what is left is scaled to one."] : "q is taken off p; what is left is scaled to one."));
}

// The chance as a bar from 0 to 1 and the random number as a tick on it; for a threshold, p and the threshold.
function verdictMeter(rule, trial) {
  const { u, accepted } = trial;
  if (u === null) return null;
  const value = rule === "typical" ? chance(trial.p) : winning(trial);
  const words = rule === "typical" ? `p ${level(value)} ${accepted ? ">" : "≤"} threshold ${level(u)}`
    : `u ${level(u)} ${accepted ? "<" : "≥"} chance ${shareOf(logOf(value))}`;
  return element("span", { class: "tg-verdict" },
    element("span", { class: `tg-meter tg-gate tg-meter-${accepted ? "accepted" : "rejected"}`, role: "img", "aria-label": words, style: `--p:${value}; --t:${u}` }),
    element("span", { class: "tg-number" }, words));
}

// The likeliest tokens of a distribution as bars, the `chosen` one among them in the colour of its fate, and what stands at zero.
function bars(view, met, chosen, zero) {
  if (!met.length) return element("p", { class: "tg-quiet" }, "The target’s distribution was not recorded here.");
  const others = met.filter(([token]) => token !== chosen.token);
  const known = chosen.p !== undefined;
  const rows = [...others.slice(0, MOST_BARS - 1), ...(known ? [[chosen.token, chosen.p]] : [])]
    .sort((one, other) => (other[1] ?? -Infinity) - (one[1] ?? -Infinity));
  const scale = Math.max(...rows.map(([, logprob]) => chance(logprob)), chance(chosen.q ?? null), 1e-9);
  return [element("table", { class: "tg-bars", "aria-label": "The target’s distribution, best tokens" }, element("tbody", {},
    rows.map(([token, logprob]) => barRow(view, token, logprob, token === chosen.token ? chosen : null, scale)),
    zero.filter((token) => token !== chosen.token).map((token) => barRow(view, token, null, null, scale)))),
  known ? null : element("p", { class: "tg-quiet" }, chip(piece(view, chosen.token), 14), " was not among the best tokens.")];
}

function barRow(view, token, logprob, chosen, scale) {
  const tick = chosen && typeof chosen.q === "number" ? `; --t:${chance(chosen.q) / scale}` : "";
  const name = chip(piece(view, token), 14);
  return element("tr", { class: chosen ? "tg-self" : undefined },
    element("td", {}, chosen ? link(name, chosen.act) : name),
    element("td", {}, element("span", { class: `tg-meter tg-meter-${chosen ? chosen.fate : "target"}${tick ? " tg-gate" : ""}`, style: `--p:${chance(logprob) / scale}${tick}` })),
    element("td", { class: "tg-number" }, shareOf(logprob)));
}

// The bonus in the distribution that it was drawn from: what the last rejected child left, or all of the target's.
function bonusTrial(view, round, rule, tried, choose) {
  const { token, parent } = round.bonus;
  const lost = rule === "typical" ? [] : tried.filter(([node, , , , accepted]) => !accepted && round.parent[node] === parent);
  const met = lost.length ? lost[lost.length - 1][5] : bestAfter(round, parent);
  const p = new Map(met).get(token);
  return element("details", { class: "tg-trial tg-trial-bonus", open: true },
    element("summary", {}, marker(-1, "bonus"), chip(piece(view, token), 14), element("span", { class: "tg-fate tg-fate-bonus" }, "drawn"),
      element("span", { class: "tg-quiet" }, lost.length ? "from what is left after " : "after ", chip(piece(view, round.token[parent]), 14))),
    bars(view, met, { token, p, fate: "bonus", act: () => choose("bonus") }, [...new Set(lost.map(([node]) => round.token[node]))]));
}
