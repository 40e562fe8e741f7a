// What is drawn of a round and where. Rows come from the layout in Python; an opened stub pushes later rows down.

const ROW = 100;

function arrangement(round, opened) {
  const rows = round.rows.slice();
  const stubs = round.stubs.map(([parent, row, count, nodes]) => ({ parent, row, count, nodes, open: false }));
  let bonus = round.bonus.row;
  for (const [number, stub] of stubs.entries()) {
    if (!opened.has(number) || stub.row === null) continue;
    stub.open = true;
    const inner = stubs.filter((other) => stub.nodes.includes(other.parent));
    const margin = inner.length ? ROW : 0;
    const first = stub.row;
    const move = (row) => (row === null || row < first ? row
      : row === first ? row + margin : row + (stub.nodes.length - 1) * ROW + 2 * margin);
    rows.forEach((row, node) => { rows[node] = move(row); });
    stubs.forEach((other) => { other.row = move(other.row); });
    bonus = move(bonus);
    stub.nodes.forEach((node, place) => { rows[node] = first + margin + place * ROW; });
    inner.forEach((other) => { other.row = rows[other.parent]; });
  }
  return { rows, stubs, bonus };
}

// Everything drawn, as items with a depth, a row and a parent item. Ids: a node's number, "bonus", "stub3".
function itemsOf(view, round, opened) {
  const { rows, stubs, bonus } = arrangement(round, opened);
  const depth = depths(round), grafted = new Set(round.grafted);
  const items = [];
  rows.forEach((row, node) => {
    if (row === null) return;
    items.push({ id: node, kind: "node", node, row, depth: depth[node], parent: node ? round.parent[node] : null,
      text: piece(view, round.token[node]), drafter: round.origin[node], born: round.born[node],
      opened: round.rows[node] === null, grafted: grafted.has(node) });
  });
  stubs.forEach((stub, number) => {
    if (stub.row === null || stub.open) return;
    const inside = below(round, stub.nodes), births = inside.map((node) => round.born[node]).sort((a, b) => a - b);
    items.push({ id: `stub${number}`, kind: "stub", number, row: stub.row, depth: depth[stub.parent] + 1,
      parent: stub.parent, text: `+${stub.count}`, inside, births, born: births[0], drafter: round.origin[stub.nodes[0]],
      grafted: stub.nodes.every((node) => grafted.has(node)) });
  });
  if (round.bonus) {
    items.push({ id: "bonus", kind: "bonus", row: bonus, depth: depth[round.bonus.parent] + 1,
      parent: round.bonus.parent, text: piece(view, round.bonus.token), drafter: -1, born: lastOf(round, "accept") });
  }
  return items;
}

function depths(round) {
  const depth = [0];
  for (let node = 1; node < round.parent.length; node += 1) depth.push(depth[round.parent[node]] + 1);
  return depth;
}

// The nodes and everything under them; children have higher numbers than their parents.
function below(round, nodes) {
  const found = new Set(nodes);
  for (let node = 1; node < round.parent.length; node += 1) if (found.has(round.parent[node])) found.add(node);
  return [...found];
}

function lastOf(round, kind) {
  return round.events.reduce((last, event, number) => (event.kind === kind ? number : last), -1);
}

// Nodes that carry their text all the time: the accepted path, the bonus, what was opened, and the best by score.
function labelled(items, round, best, all) {
  const kept = items.filter((item) => item.kind === "node" && round.fate[item.node] !== "p")
    .sort((one, other) => round.rank[one.node] - round.rank[other.node]);
  const chosen = new Set(kept.slice(0, best + 1).map((item) => item.id));
  for (const item of items) {
    const fate = item.kind === "node" ? round.fate[item.node] : "";
    if (item.kind !== "node" || item.opened || "oad".includes(fate) || all) chosen.add(item.id);
  }
  return chosen;
}

const LABEL_ROW = 16;
const PLAIN_ROW = 9.5;

// From rows to pixels: rows with text get the height of a line, others less, all of them more if there is room.
function rowScale(items, shown, height) {
  const last = Math.max(...items.map((item) => item.row)) / ROW;
  const tall = new Array(2 * Math.ceil(last + 1) + 2).fill(false);
  for (const item of items) {
    if (item.kind === "stub" || !shown.has(item.id)) continue;
    const from = Math.floor((2 * item.row) / ROW), to = Math.ceil((2 * item.row) / ROW) + 2;
    tall.fill(true, from, to);
  }
  const edges = [0];
  for (const high of tall) edges.push(edges[edges.length - 1] + (high ? LABEL_ROW : PLAIN_ROW) / 2);
  const at = (row) => {
    const place = (2 * row) / ROW + 1, bin = Math.floor(place);
    return edges[bin] + (place - bin) * ((edges[bin + 1] ?? edges[bin]) - edges[bin]);
  };
  const span = at(last * ROW) - at(0);
  const stretch = span > 0 ? Math.min(1.7, Math.max(1, (height - 2 * MARGIN) / span)) : 1;
  const top = Math.max(MARGIN, (height - span * stretch) / 2);
  return { at: (row) => top + (at(row) - at(0)) * stretch, height: Math.max(height, span * stretch + 2 * MARGIN) };
}

// About how tall the tallest tree of a run is, so that a run of small trees gets a small frame.
function tallest(view) {
  const rows = view.rounds.map((round) => Math.max(round.bonus.row, ...round.rows.map((row) => row ?? 0)) / ROW);
  return Math.max(...rows) * LABEL_ROW + 4 * MARGIN;
}

const MARGIN = 24;
const LABEL_GAP = 9;

// From depths to pixels: a column is as wide as its widest text, and the links share the width that is left.
function columnScale(items, shown, width, measure) {
  const deepest = Math.max(...items.map((item) => item.depth));
  const text = new Array(deepest + 1).fill(0);
  for (const item of items) {
    item.label = shown.has(item.id) ? short(item.text, item.kind === "bonus" ? 22 : 16) : "";
    item.width = item.label ? measure(item.label) + LABEL_GAP : 0;
    text[item.depth] = Math.max(text[item.depth], item.width);
  }
  const used = text.reduce((sum, one) => sum + one, 0) + 2 * MARGIN + 12;
  const link = deepest ? Math.min(200, Math.max(40, (width - used) / deepest)) : 0;
  const columns = [MARGIN];
  for (let depth = 0; depth < deepest; depth += 1) columns.push(columns[depth] + text[depth] + link);
  return { columns, text, width: columns[deepest] + text[deepest] + MARGIN };
}
