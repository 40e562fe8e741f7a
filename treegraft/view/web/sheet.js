// The side panel: what is known of one node, or the legend while none is chosen.

function nodeSheet(view, round, item, choose) {
  const body = item.kind === "stub" ? stubSheet(view, round, item, choose)
    : item.kind === "bonus" ? bonusSheet(view, round, choose) : factsOf(view, round, item.node, choose);
  return [sheetHead(view, round, item, choose), ...body];
}

function sheetHead(view, round, item, choose) {
  const fate = item.kind === "node" ? FATE[round.fate[item.node]] : item.kind === "bonus" ? "bonus" : "pruned";
  const token = item.kind === "bonus" ? round.bonus.token : item.kind === "node" ? round.token[item.node] : null;
  const title = token === null ? element("span", {}, `${item.text.slice(1)} pruned`) : chip(piece(view, token));
  const ids = token === null ? "" : item.kind === "bonus" ? `token ${token}` : `token ${token} · node ${item.node}`;
  return element("header", { class: "tg-sheet-head" },
    element("h3", { class: "tg-sheet-token" }, title),
    element("button", { class: "tg-icon", "aria-label": "Close the node sheet (Esc)", title: "Close (Esc)", onclick: () => choose(null) }, icon("close")),
    element("p", { class: "tg-sheet-ids" }, marker(item.drafter, fate, 15),
      element("span", { class: `tg-fate tg-fate-${fate}` }, FATE_WORDS[fate]), element("span", { class: "tg-quiet" }, ids)));
}

function factsOf(view, round, node, choose) {
  const facts = { rank: round.rank[node], pool: round.pool, kept: round.kept, budget: round.budget,
    p: round.logprob[node], parent: node ? round.token[round.parent[node]] : null };
  const words = round.why[node].map((packed) => element("p", {}, sentence(view, packed, facts)));
  if (!node) return [element("div", { class: "tg-why" }, words), targetView(view, round, 0, choose)];
  return [
    element("div", { class: "tg-why" }, words),
    element("dl", { class: "tg-facts" }, facet("Drafter’s q", meter(round.q[node], "neutral")),
      facet("Target’s p", round.logprob[node] === null ? absent("not verified") : meter(round.logprob[node], "target")),
      facet("Rank under target", node in round.ranks ? `${round.ranks[node] + 1}` : absent("not recorded here")),
      node in round.chances ? facet("Chance", meter(logOf(round.chances[node]), "target")) : null,
      node in round.expected ? facet("Expected below", `${decimal(round.expected[node])} tokens`) : null,
      facet("Score", scoreOf(round, node)),
      facet("Rank by score", round.score[node] === null ? absent("no score") : `${round.rank[node]} of ${round.pool}`),
      facet("Drafter", [marker(round.origin[node], "neutral"), ` ${drafterName(view, round.origin[node])}`, layerOf(round, node)]),
      round.merged.includes(node) ? facet("Also by", drafterName(view, round.events.find((event) => event.merged?.includes(node)).drafter)) : null,
      node in round.row ? facet("Row", element("span", {}, `${rowRank(round, node)} of `, chip(piece(view, round.token[round.parent[node]]), 24))) : null,
      facet("Parent", link(chip(piece(view, round.token[round.parent[node]]), 22), () => choose(round.parent[node]))),
      copiedFrom(round, node)),
    targetView(view, round, round.parent[node], choose, node),
  ];
}

const facet = (name, value) => [element("dt", {}, termOf(name)), element("dd", {}, value)];
const absent = (words) => element("span", { class: "tg-quiet" }, words);

function link(content, act) {
  return element("button", { class: "tg-textlink", onclick: act }, content);
}

function layerOf(round, node) {
  const event = round.events[round.born[node]];
  return event && event.layer !== undefined ? `, layer ${event.layer}` : "";
}

// The place of a token in the row of its parent's token, for drafters that rank.
const rowRank = (round, node) => `rank ${round.row[node] + 1} in the row`;

function scoreOf(round, node) {
  const unit = (words) => (words === "none" ? words : `${words} nats`);
  const changes = round.changes.filter((change) => change[1] === node);
  if (!changes.length) return unit(bareScore(round.score[node]));
  return `${bareScore(changes[0][2])} → ${unit(bareScore(changes[changes.length - 1][3]))}`;
}

function copiedFrom(round, node) {
  if (!round.copied[node]) return null;
  const [match, source] = round.copied[node];
  if (source === null && match === 0) return null;
  const place = source === null ? "from another text" : `from position ${source}`;
  return facet("Copied", `${place}, match of ${match}`);
}

// A probability as a log-probability.
const logOf = (p) => (p > 0 ? Math.log(p) * NATS : null);

// A probability as a number and a bar.
function meter(logprob, kind) {
  if (logprob === null || logprob === undefined) return absent("none");
  return [element("span", { class: "tg-number" }, prob(logprob)),
    element("span", { class: `tg-meter tg-meter-${kind}`, style: `--p:${chance(logprob)}` })];
}

// What the target thought would come after a node, and what became of the drafted ones among it.
function targetView(view, round, node, choose, self = null) {
  const walked = round.walk[node];
  if (!walked) return null;
  const [tokens, logprobs, entropy] = walked;
  const drafted = new Map();
  round.parent.forEach((parent, child) => { if (parent === node && round.fate[child] !== "p") drafted.set(round.token[child], child); });
  const rows = tokens.slice(0, 8).map((token, place) => {
    const child = drafted.get(token);
    const own = round.bonus && round.bonus.parent === node && round.bonus.token === token;
    const fate = child !== undefined ? FATE[round.fate[child]] : own ? "bonus" : null;
    const mark = fate ? marker(child !== undefined ? round.origin[child] : -1, fate) : "";
    const name = chip(piece(view, token), 18);
    const target = child !== undefined ? child : own ? "bonus" : null;
    return element("tr", { class: child !== undefined && child === self ? "tg-self" : undefined },
      element("td", {}, mark), element("td", {}, target === null ? name : link(name, () => choose(target))),
      element("td", {}, meter(logprobs[place], fate === "accepted" || fate === "bonus" ? fate : "target")));
  });
  return element("section", { class: "tg-target" },
    element("h4", {}, "The target after ", chip(piece(view, round.token[node]), 18)),
    element("table", { "aria-label": "The target’s best next tokens" }, element("tbody", {}, rows)),
    element("p", { class: "tg-quiet" }, `Entropy ${nats(entropy)} nats. ${markedWords(drafted.size, round.bonus.parent === node)}`));
}

// What the marks beside the target's next tokens say.
function markedWords(drafted, own) {
  const parts = [drafted ? "drafted tokens" : null, own ? "with a ring the target’s own choice" : null].filter(Boolean);
  return parts.length ? `Marked: ${parts.join(", ")}.` : "";
}

function bonusSheet(view, round, choose) {
  const { parent, why } = round.bonus;
  return [element("div", { class: "tg-why" }, why.map((packed) => element("p", {}, sentence(view, packed)))),
    targetView(view, round, parent, choose)];
}

function stubSheet(view, round, item, choose) {
  const nodes = round.stubs[item.number][3];
  const rows = nodes.slice(0, 40).map((node) => element("tr", {}, element("td", {}, marker(round.origin[node], "pruned")),
    element("td", {}, chip(piece(view, round.token[node]), 18)), element("td", {}, meter(round.q[node], "neutral")),
    element("td", { class: "tg-number" }, round.score[node] === null ? "none" : nats(round.score[node]))));
  return [
    element("p", {}, "Drafted after ", chip(piece(view, round.token[item.parent]), 18), " and not sent to the target."),
    element("button", { class: "tg-button", onclick: () => choose(item.id, true) }, "Show them in the tree"),
    element("table", { class: "tg-pruned-list", "aria-label": "Pruned tokens" },
      element("thead", {}, element("tr", {}, ["", "token", "q", "score"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows)),
    nodes.length > 40 ? element("p", { class: "tg-quiet" }, `and ${nodes.length - 40} more`) : null,
  ];
}

// The drafters that continued branches of others in this round.
function graftersOf(view, round) {
  const found = new Set(round.grafted.map((node) => round.origin[node]));
  return view.drafters.filter((drafter) => found.has(drafter.id));
}

// What the legend of a round depends on.
function legendFacts(view, round) {
  const retrievers = new Set(Object.keys(round.row).map((node) => round.origin[node]));
  return { discarded: round.fate.includes("d"), wall: Boolean(round.wall), retrievers: [...retrievers], grafters: graftersOf(view, round) };
}

function legend(view, { discarded, wall, retrievers, grafters }) {
  const fates = ["accepted", "rejected", "unreached", "pruned", "bonus", "new"];
  if (discarded) fates.push("discarded");
  const meaning = {
    accepted: "drafted and accepted", rejected: "the target chose otherwise", unreached: "after a rejected token",
    pruned: "not sent to the target", bonus: "the target’s own token", discarded: "after the end of the text",
    new: "new in the event shown",
  };
  return [
    element("h3", {}, "How to read it"),
    element("ul", { class: "tg-legend" }, fates.map((fate) => element("li", {}, marker(fate === "bonus" ? -1 : 0, fate),
      element("span", {}, meaning[fate]))),
    view.drafters.map((drafter) => element("li", {}, edgeSample(drafter.id), element("span", {}, `${retrievers.includes(drafter.id) ? "retrieved" : "drafted"} by ${drafter.name}`))),
    wall ? element("li", {}, wallSample(), element("span", {}, "drafting stopped here")) : null,
    grafters.map((drafter) => element("li", {}, graftSample(drafter.id), element("span", {}, `grafted by ${drafter.name} onto another’s branch`))),
    element("li", {}, vector("svg", { class: "tg-marker", width: 34, height: 14, viewBox: "0 -7 34 14", "aria-hidden": "true" },
      vector("path", { d: "M1,3L33,-4V5Z", class: "tg-wedge" })), element("span", {}, "wider: more probable to the drafter")),
    view.rounds.some(({ oracle }) => oracle.grown > oracle.verified) ? element("li", {}, element("span", { class: "tg-legend-cell" }, element("span", { class: "tg-cell tg-gap" }, "4")), element("span", {}, "under the rounds: more right tokens than were accepted")) : null),
    element("p", { class: "tg-quiet" }, "Point at a token to light its branch, click it for its numbers. Press ",
      element("kbd", {}, "?"), " for keys."),
  ];
}
