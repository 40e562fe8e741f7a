// Keys work anywhere on the page, except where another control needs them. They are caught before the page sees them,
// since Streamlit has uses of its own for R and C.

const ACTIONS = {
  ArrowLeft: (player) => player.step(-1),
  ArrowRight: (player) => player.step(1),
  "Shift+ArrowLeft": (player) => player.stepRound(-1),
  "Shift+ArrowRight": (player) => player.stepRound(1),
  ArrowUp: (player) => neighbour(player, -1),
  ArrowDown: (player) => neighbour(player, 1),
  Home: (player) => player.go(0),
  End: (player) => player.go(player.view.total - 1),
  " ": (player) => player.play(!player.timer),
  r: (player) => player.jump("rejection"),
  c: (player) => player.jump("call"),
  g: (player) => player.jump("graft"),
  a: (player) => player.jump("full accept"),
  d: (player) => player.jump("divergence"),
  w: (player) => player.jumpToWorst(),
  e: (player) => player.toggleList(),
  t: (player) => player.toggleTable(),
  n: (player, event) => player.finder.next(event.shiftKey ? -1 : 1),
  "/": (player) => player.finder.focus(),
  l: (player) => player.toggleLabels(),
  f: (player) => player.toggleWhole(),
  ",": (player) => kin(player, (item) => player.scene.byId.get(item.parent)),
  ".": (player) => kin(player, (item) => bestChild(player, item)),
  "?": (player) => player.help(),
  Escape: (player) => escape(player),
};

function onKey(player, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.composedPath()[0];
  const ours = event.composedPath().includes(player.root);
  if (target === player.finder.input) return player.finder.onKey(event);
  if ((player.hooks.compact && !ours) || !keysAreFree(target, ours, event.key)) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = ACTIONS[event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${key}` : roundKey(target, key)];
  if (!action || (!player.view.rounds.length && key !== "Escape")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  action(player, event);
}

// On the slider of the rounds, plain arrows move by rounds; in the list of events, up and down move by events.
function roundKey(target, key) {
  if (target instanceof Element && target.closest(".tg-event-list")) return { ArrowUp: "ArrowLeft", ArrowDown: "ArrowRight" }[key] || key;
  const onRounds = target instanceof Element && target.classList.contains("tg-rounds");
  return onRounds && (key === "ArrowLeft" || key === "ArrowRight") ? `Shift+${key}` : key;
}

function keysAreFree(target, ours, key) {
  if (!(target instanceof Element) || target === document.body) return true;
  if (target.closest("input, textarea, select, [contenteditable], [role=combobox], [role=listbox], [role=dialog]:not(.tg-help)")) return false;
  if (!ours) return !target.matches(":focus-visible") || key === "?";
  const button = target.closest("button, summary, [role=button], [role=menuitem]");
  return !(key === " " && button && target.matches(":focus-visible"));
}

function escape(player) {
  if (player.sheet) player.help();
  else if (player.menu.open) player.menu.open = false;
  else if (player.pinned !== null) player.choose(null);
  else if (player.finder.text) player.finder.clear();
  else player.play(false);
}

function kin(player, find) {
  const item = player.scene.byId.get(player.pinned) || player.scene.byId.get(0);
  const next = player.pinned === null ? item : find(item);
  if (next && next.id !== player.pinned) player.choose(next.id);
}

function bestChild(player, item) {
  const children = player.scene.items.filter((other) => other.parent === item.id && other.on);
  return children.find((child) => child.fate === "accepted" || child.kind === "bonus")
    || children.sort((one, other) => one.y - other.y)[0];
}

function neighbour(player, by) {
  const item = player.scene.byId.get(player.pinned);
  if (!item) return kin(player, (root) => root);
  const layer = player.scene.items.filter((other) => other.depth === item.depth && other.on).sort((one, other) => one.y - other.y);
  const next = layer[layer.indexOf(item) + by];
  if (next) player.choose(next.id);
  return undefined;
}

// The next rejection, call, graft, full accept or divergence after a place, as a place.
function findNext(view, kind, from) {
  for (let number = Math.max(from.round, view.first); number < view.first + view.rounds.length; number += 1) {
    const round = view.rounds[number - view.first];
    const after = number === from.round ? from.event : -1;
    const event = round.events.findIndex((one, place) => place > after && isKind(round, place, kind));
    if (event >= 0) return { round: number, event, node: nodeOf(round, event, kind) };
  }
  return null;
}

function isKind(round, number, kind) {
  const event = round.events[number], before = round.events[number - 1];
  if (kind === "rejection") return event.kind === "accept" && round.rejection;
  if (kind === "full accept") return event.kind === "accept" && round.accepted > 0 && !round.rejection && !round.bonus.discarded;
  if (kind === "divergence") return event.kind === "accept" && divergence(round) !== null;
  if (kind === "graft") return event.kind === "graft" || ((event.grafted || []).length > 0 && lastOf(round, "graft") < 0);
  return event.call === true && !(before?.call && before.layer === event.layer);
}

// The node that such an event is about: what was rejected, the best of what was grafted by a layer.
function nodeOf(round, number, kind) {
  if (kind === "rejection") return firstRejected(round);
  if (kind === "divergence") return divergence(round);
  if (kind === "full accept") return null;
  return kind === "graft" ? byRank(round, round.events[number].grafted || [])[0] ?? null : null;
}

const byRank = (round, nodes) => nodes.slice().sort((one, other) => round.rank[one] - round.rank[other]);

// The best of the tokens that the target turned down at the end of its walk.
function firstRejected(round) {
  const tip = round.bonus.parent;
  return byRank(round, round.parent.map((parent, node) => node).filter((node) => round.parent[node] === tip && round.fate[node] === "r"))[0];
}

// The first token of the round's text that was not the target's favourite: a node, or "bonus"; null where all were.
function divergence(round) {
  const path = [];
  for (let node = round.bonus.parent; node > 0; node = round.parent[node]) path.unshift(node);
  let before = 0;
  for (const id of [...path, "bonus"]) {
    const favourite = round.walk[before]?.[0][0], token = id === "bonus" ? round.bonus.token : round.token[id];
    if (favourite !== undefined && favourite !== token) return id;
    before = id;
  }
  return null;
}

// The rounds of a view from the worst on: the fewest accepted, then the widest gap to what the grown tree held.
function worstFirst(view) {
  return view.rounds.filter((round) => !round.bonus.discarded)
    .sort((one, other) => one.accepted - other.accepted || other.oracle.grown - one.oracle.grown || one.index - other.index);
}
