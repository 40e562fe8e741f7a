// What an event marks in the tree: the frontier of a decision, scores that a call changed, the frontier it chose, and what
// was retrieved.

// Classes of the nodes that an event marks.
function eventMarks(round, number) {
  const event = round.events[number], marks = new Map();
  if (!event) return marks;
  const put = (nodes, name) => nodes.forEach((node) => marks.set(node, name));
  if (event.kind === "decide") put(event.from, "tg-stayed");
  else if (event.kind === "reselect") {
    const before = new Set(event.before), after = new Set(event.after);
    put(event.before.filter((node) => !after.has(node)), "tg-left");
    put(event.after, "tg-joined");
    put(event.after.filter((node) => before.has(node)), "tg-stayed");
  } else if (event.kind === "rescore") {
    for (const [node, { before, after }] of changesOf(round, number)) marks.set(node, rises(before, after) ? "tg-risen" : "tg-fallen");
    put(event.unreachable, "tg-lost");
  } else if (event.kind === "graft") {
    put(event.nodes, "tg-found");
    put(event.merged, "tg-again");
  } else if (event.kind === "learn") {
    const tokens = new Set(event.rows.map(([token]) => token));
    put(round.token.map((token, node) => node).filter((node) => tokens.has(round.token[node]) && round.fate[node] !== "p"), "tg-learned");
  } else {
    put(event.again || [], "tg-again");
    put(event.from || [], "tg-source");
  }
  return marks;
}

// The scores that an event changed, by node.
function changesOf(round, number) {
  return new Map(round.changes.filter(([event]) => event === number).map(([, node, before, after]) => [node, { before, after }]));
}

// Whether a score rises by a change; any score is more than none.
const rises = (before, after) => after !== null && (before === null || after > before);

// Every node's score after an event; null for one that had none, undefined for one to come.
function scoresAt(round, number) {
  const scores = round.score.map((score, node) => (round.born[node] <= number ? score : undefined));
  for (const [event, node, before] of round.changes.slice().reverse()) {
    if (event > number && scores[node] !== undefined) scores[node] = before;
  }
  return scores;
}

// Every drafted node's rank after an event, by (score, shallower, older) from 1.
function ranksAt(round, number) {
  const scores = scoresAt(round, number), depth = depths(round), ranks = [];
  const value = (node) => scores[node] ?? -Infinity;
  const better = (one, other) => (value(one) === value(other) ? depth[one] - depth[other] || one - other : value(other) - value(one));
  scores.map((score, node) => node).filter((node) => node && scores[node] !== undefined).sort(better)
    .forEach((node, place) => { ranks[node] = place + 1; });
  return ranks;
}

// From 1 (best) to 0 for every drafted node by its rank after an event.
function standings(round, number) {
  const ranks = ranksAt(round, number), most = Math.max(...ranks.filter(Boolean), 2);
  return ranks.map((rank) => 1 - (rank - 1) / (most - 1));
}

// What a rescoring did to each node whose score it changed: score and rank, before and after.
function movesOf(round, number) {
  const from = ranksAt(round, number - 1), to = ranksAt(round, number);
  return [...changesOf(round, number)].map(([node, change]) => ({ node, ...change, from: from[node], to: to[node] }));
}

const MOST_NOTED = 12;

// Words beside nodes while an event is shown, [node, words]: the ranks that a rescoring changed most, and the order in which a
// sampled acceptance tried its nodes.
function notesOf(round, number) {
  const event = round.events[number];
  if (event?.kind === "rescore") {
    return movesOf(round, number).filter(({ from, to }) => from !== to)
      .sort((one, other) => Math.abs(other.to - other.from) - Math.abs(one.to - one.from)).slice(0, MOST_NOTED)
      .map(({ node, from, to }) => [node, `${from}→${to}`]);
  }
  return (event?.tried || []).slice(0, MOST_TRIED).map(([node], place) => [node, `${place + 1}`]);
}

// Where the acceptance went, in order: the nodes that were tried, or the accepted path, then the target's own token.
function walkOf(round, number) {
  const event = round.events[number];
  if (event?.kind !== "accept") return [];
  if (event.tried) return [0, ...event.tried.slice(0, MOST_TRIED).map(([node]) => node), "bonus"];
  const path = [];
  for (let node = round.bonus.parent; node >= 0; node = round.parent[node]) path.unshift(node);
  return [...path, "bonus"];
}
