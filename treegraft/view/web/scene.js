// The picture of one round, drawn on a canvas that may have held another one. An event only changes classes, so nothing
// ever moves while it plays.

const RADIUS = 4.1;

class Scene {
  constructor(view, round, canvas, { opened, allLabels, width, height, best, measure }) {
    this.view = view;
    this.round = round;
    this.canvas = canvas;
    this.last = { prune: lastOf(round, "prune"), verify: lastOf(round, "verify"), accept: lastOf(round, "accept") };
    this.items = itemsOf(view, round, opened);
    this.byId = new Map(this.items.map((item) => [item.id, item]));
    const shown = labelled(this.items, round, best, allLabels);
    const rows = rowScale(this.items, shown, height);
    const columns = columnScale(this.items, shown, width, measure);
    for (const item of this.items) this.place(item, rows, columns);
    this.width = Math.max(columns.width, width);
    this.height = rows.height;
    this.wall = round.wall ? this.drawWall(round.wall, columns) : null;
    this.draw();
  }

  place(item, rows, columns) {
    item.fate = item.kind === "node" ? FATE[this.round.fate[item.node]] : item.kind;
    item.radius = item.kind === "stub" ? 0 : RADIUS;
    item.x = columns.columns[item.depth];
    item.y = rows.at(item.row);
    item.outlet = item.x + (item.label ? item.radius + item.width + 2 : item.radius);
    item.columnEnd = Math.max(item.outlet, item.x + columns.text[item.depth]);
  }

  draw() {
    this.canvas.begin(this.width, this.height, this.wall);
    const inFront = (item) => (item.fate === "accepted" ? 2 : item.fate === "pruned" || item.kind === "stub" ? 0 : 1);
    const linked = this.items.filter((item) => item.parent !== null).sort((one, other) => inFront(one) - inFront(other));
    linked.forEach((item, place) => this.drawEdge(item, (item.edge = this.canvas.edge(place))));
    this.items.forEach((item, place) => this.drawItem(item, (item.mark = this.canvas.mark(place))));
    this.canvas.trim(this.items.length, linked.length);
  }

  get svg() {
    return this.canvas.svg;
  }

  // A line behind the deepest tokens that were drafted when a gate said stop.
  drawWall([, deepest, stage], { columns, text }) {
    const depth = Math.min(deepest, columns.length - 1);  // what was drafted deeper is inside of stubs
    const x = columns[depth] + Math.max(text[depth], RADIUS) + 12;
    const toLeft = x + 150 > this.width;
    return vector("g", { class: "tg-wall tg-off" },
      vector("line", { x1: x, x2: x, y1: 0, y2: this.height }),
      vector("text", { x: toLeft ? x - 6 : x + 6, y: 12, "text-anchor": toLeft ? "end" : "start" },
        stage ? `drafting stopped: ${short(stage, 12)}` : "drafting stopped"));
  }

  drawEdge(item, edge) {
    const from = this.byId.get(item.parent);
    const middle = (from.columnEnd + item.x - item.radius) / 2;
    const end = item.x - item.radius - (item.kind === "stub" ? 4 : 0);
    const bend = from.columnEnd > from.outlet ? `H${tenth(from.columnEnd)}` : "";
    const curve = `C${tenth(middle)},${tenth(from.y)} ${tenth(middle)},${tenth(item.y)}`;
    const logprob = item.kind === "node" ? this.round.q[item.node] : null;
    const dash = item.kind === "bonus" ? "1 4" : item.grafted ? GRAFT_DASH : DASHES[Math.max(item.drafter, 0) % DASHES.length];
    edge.set({
      d: `M${tenth(from.outlet)},${tenth(from.y)}${bend}${curve} ${tenth(end)},${tenth(item.y)}`,
      "stroke-dasharray": dash || undefined,
      "stroke-width": Math.max(edgeWidth(logprob), item.grafted ? 1.6 : 0).toFixed(2),
      style: item.fate === "accepted" ? `--w:${edgeWidth(logprob).toFixed(2)}px` : undefined,
    });
  }

  drawItem(item, mark) {
    const { kind, radius } = item;
    mark.set({ transform: `translate(${tenth(item.x)},${tenth(item.y)})` });
    mark.draw(kind === "stub" ? "" : kind === "bonus" ? bonusPath(radius) : markerPath(item.drafter, radius));
    mark.write(kind === "stub" ? "" : item.label, kind === "stub" ? 0 : radius + LABEL_GAP - 3);
  }

  // What an item looks like after an event, as a list of classes.
  looks(item, number, marks) {
    if (item.born > number) return `tg-${item.kind} tg-off`;
    const { prune, verify, accept } = this.last;
    const words = [`tg-${item.kind}`];
    const told = number >= accept && accept >= 0;
    if (item.kind !== "node" || told || item.fate === "root") words.push(`tg-${item.fate}`);
    else if (item.fate === "pruned" && number >= prune) words.push("tg-pruned");
    else words.push(number >= verify && verify >= 0 ? "tg-read" : "tg-neutral");
    if (item.born === number && item.kind === "node") words.push("tg-new");
    if (this.standing && item.node > 0) words.push("tg-scored");
    if (item.kind === "node" ? marks.has(item.node) : item.inside?.some((node) => marks.has(node))) {
      words.push(marks.get(item.node) || "tg-holds");
    }
    return words.join(" ");
  }

  show(number) {
    const moved = number !== this.number;
    this.number = number;
    this.standing = this.round.events[number]?.kind === "rescore" ? standings(this.round, number) : null;
    const marks = eventMarks(this.round, number);
    if (this.wall) this.wall.classList.toggle("tg-off", number < this.round.wall[0]);
    for (const item of this.items) {
      const looks = this.looks(item, number, marks);
      item.on = item.born <= number;
      if (item.kind === "stub" && item.on) this.count(item, number);
      if (this.standing && item.on && item.node > 0) item.mark.set({ style: `--score:${this.standing[item.node].toFixed(2)}` });
      if (looks === item.looks) continue;
      item.looks = looks;
      this.paint(item);
      this.decorate(item);
    }
    if (moved) this.annotate(number);
  }

  // The items that the event shown brought or marks, the best first.
  marked() {
    const marks = eventMarks(this.round, this.number);
    return this.items.filter((item) => item.kind === "node" && (item.born === this.number || marks.has(item.node)))
      .sort((one, other) => this.round.rank[one.node] - this.round.rank[other.node]);
  }

  // Words beside nodes, and a pulse that goes the way that the acceptance went.
  annotate(number) {
    const notes = notesOf(this.round, number).map(([node, words]) => [this.byId.get(node), words]).filter(([item]) => item);
    const above = this.round.events[number]?.kind === "accept";
    const texts = notes.map(([item, words]) => vector("text", above
      ? { x: tenth(item.x - RADIUS - 2), y: tenth(item.y - RADIUS - 1), "text-anchor": "end" }
      : { x: tenth(item.outlet + 3), y: tenth(item.y), dy: "0.34em" }, words));
    const pulses = walkOf(this.round, number).map((id) => this.byId.get(id)).filter(Boolean)
      .map((item, turn) => vector("circle", { class: "tg-pulse", r: RADIUS + 6, cx: tenth(item.x), cy: tenth(item.y), style: `--turn:${turn}` }));
    this.canvas.notes.replaceChildren(...pulses, ...texts);
  }

  // Marks what a search found, null: nothing is searched for. A stub is marked for what is inside it.
  find(ids) {
    for (const item of this.items) {
      const hit = Boolean(ids) && (ids.has(item.id) || (item.inside || []).some((node) => ids.has(node)));
      if (hit === (item.hit || false)) continue;
      item.hit = hit;
      item.mark.bracket(hit ? hitMark(item.kind === "stub" ? 9 : RADIUS + 4) : null);
      this.paint(item);
    }
  }

  // A ring around a node of the frontier, a sign beside one whose score has changed, a cross on a rejected one.
  decorate(item) {
    item.mark.crossed(item.looks.includes("tg-rejected"));
    const named = (names) => names.find((name) => item.looks.includes(`tg-${name}`));
    const ringed = named(["stayed", "joined", "left"]), moved = named(Object.keys(MOVES));
    item.mark.sign(ringed ? frontier(ringed, RADIUS + 3) : moved ? move(moved, { transform: `translate(${-RADIUS - 6},0)` }) : null);
  }

  // A stub says how many of its tokens were there.
  count(item, number) {
    const words = `+${item.births.filter((born) => born <= number).length}`;
    item.mark.write(words, 0);
  }

  paint(item) {
    const classes = item.looks + (item.lit ? " tg-lit" : "") + (item.thread ? " tg-thread" : "") + (item.hit ? " tg-hit" : "");
    item.mark.set({ class: `tg-item ${classes}` });
    item.edge?.set({ class: `tg-edge ${classes}${item.grafted ? ` ${graftClass(item.drafter)}` : ""}` });
  }

  lineage(id) {
    const found = new Set();
    for (let item = this.byId.get(id); item; item = this.byId.get(item.parent)) found.add(item.id);
    return found;
  }

  // Lights and names the path from the root to the item under the pointer, and dims the rest.
  hover(id) {
    this.svg.classList.toggle("tg-dim", this.byId.has(id));
    this.mark("lit", this.lineage(id));
  }

  pin(id) {
    this.mark("thread", this.lineage(id));
    const item = this.byId.get(id);
    this.canvas.ring.set({ visibility: item ? "visible" : "hidden" });
    if (item) this.canvas.ring.set({ transform: `translate(${tenth(item.x)},${tenth(item.y)})` });
  }

  mark(flag, ids) {
    for (const item of this.items) {
      const on = ids.has(item.id);
      if ((item[flag] || false) === on) continue;
      item[flag] = on;
      this.paint(item);
      if (!item.label && item.kind === "node") {
        item.mark.write(item.lit || item.thread ? short(item.text, 16) : "", item.radius + LABEL_GAP - 3);
      }
    }
  }

  // The drawn item nearest to a point, if one is near.
  nearest(x, y) {
    let best = null, least = 14;
    for (const item of this.items) {
      if (!item.on) continue;
      const right = item.x + item.radius + item.width;
      const dx = Math.max(item.x - x, 0, x - right), dy = Math.abs(item.y - y);
      const distance = Math.hypot(dx, dy * 1.4);
      if (distance < least) [best, least] = [item, distance];
    }
    return best;
  }
}
