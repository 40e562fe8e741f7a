// The picture of one round, drawn on a canvas that may have held another one. An event only changes looks, so nothing
// ever moves while it plays.

const RADIUS = 4.1;

// Where an item stands, as an attribute.
const placed = ({ x, y }, aside = 0) => ({ transform: `translate(${tenth(x + aside)},${tenth(y)})` });

// A ring around a node of the frontier, a sign beside one whose score has changed.
function changeSign(mark, item) {
  if (["stayed", "joined", "left"].includes(mark)) return frontier(mark, RADIUS + 3, placed(item));
  return mark in MOVES ? move(mark, placed(item, -RADIUS - 6)) : null;
}

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
    this.canvas.begin(this.width, this.height, this.wall, this.items.length);
    this.items.forEach((item, place) => {
      if (item.parent !== null) item.line = this.lineTo(item);
      item.words = this.canvas.labels[place];
      this.write(item, item.kind === "stub" ? "" : item.label);
    });
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

  lineTo(item) {
    const from = this.byId.get(item.parent);
    const middle = (from.columnEnd + item.x - item.radius) / 2;
    const end = item.x - item.radius - (item.kind === "stub" ? 4 : 0);
    const bend = from.columnEnd > from.outlet ? `H${tenth(from.columnEnd)}` : "";
    const curve = `C${tenth(middle)},${tenth(from.y)} ${tenth(middle)},${tenth(item.y)}`;
    return `M${tenth(from.outlet)},${tenth(from.y)}${bend}${curve} ${tenth(end)},${tenth(item.y)}`;
  }

  // Draws what has come: edges, marks and the crosses of rejected nodes.
  redraw() {
    const edges = new Looks(), marks = new Looks(), rejected = [];
    for (const item of this.items) {
      if (!item.on) continue;
      const width = edgeWidth(this.round.q[item.node]), shade = this.shade(item);
      if (item.line) edges.add([item.classes, item.drafter, item.grafted, width].join(), item.line, () => edgeLook(item, width));
      if (item.kind === "stub") continue;
      marks.add(item.classes + shade, markAt(item), () => markLook(item, shade));
      if (item.classes.includes("tg-rejected")) rejected.push(crossAt(tenth(item.x), tenth(item.y)));
    }
    this.canvas.edges.draw(edges);
    this.canvas.marks.draw(marks);
    this.canvas.crosses.set({ d: rejected.join("") });
    this.repainted = false;
  }

  // The place of a node's score on the scale of a rescoring.
  shade(item) {
    return this.standing && item.node > 0 ? `--score:${this.standing[item.node].toFixed(2)}` : "";
  }

  write(item, words) {
    item.words.write(words, tenth(item.x + (item.kind === "stub" ? 0 : item.radius + LABEL_GAP - 3)), tenth(item.y));
    if (item.classes) item.words.paint(item.classes);
  }

  // What an item looks like after an event, as a list of classes; `mark` is what the event says of it.
  looks(item, number, mark) {
    if (item.born > number) return `tg-${item.kind} tg-off`;
    const { prune, verify, accept } = this.last;
    const words = [`tg-${item.kind}`];
    const told = number >= accept && accept >= 0;
    if (item.kind !== "node" || told || item.fate === "root") words.push(`tg-${item.fate}`);
    else if (item.fate === "pruned" && number >= prune) words.push("tg-pruned");
    else words.push(number >= verify && verify >= 0 ? "tg-read" : "tg-neutral");
    if (item.born === number && item.kind === "node") words.push("tg-new");
    if (this.standing && item.node > 0) words.push("tg-scored");
    if (mark) words.push(mark);
    return words.join(" ");
  }

  show(number) {
    const moved = number !== this.number;
    this.number = number;
    this.standing = this.round.events[number]?.kind === "rescore" ? standings(this.round, number) : null;
    this.repainted ||= Boolean(this.standing);
    const marks = eventMarks(this.round, number);
    if (this.wall) this.wall.classList.toggle("tg-off", number < this.round.wall[0]);
    for (const item of this.items) {
      item.on = item.born <= number;
      const mark = !item.on ? null : item.kind === "node" ? marks.get(item.node) : item.inside?.some((node) => marks.has(node)) && "tg-holds";
      const looks = this.looks(item, number, mark);
      if (item.kind === "stub" && item.on) this.count(item, number);
      if (looks === item.looks) continue;
      item.looks = looks;
      this.paint(item);
      this.sign(item, "change", mark ? changeSign(mark.slice(3), item) : null);
    }
    if (this.repainted) this.redraw();
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
      this.sign(item, "bracket", hit ? hitMark(item.kind === "stub" ? 9 : RADIUS + 4, placed(item)) : null);
      this.paint(item);
    }
    if (this.repainted) this.redraw();
  }

  // An item has at most one sign of a kind.
  sign(item, kind, made) {
    item[kind]?.remove();
    item[kind] = made;
    if (made) this.canvas.signs.append(made);
  }

  // A stub says how many of its tokens were there.
  count(item, number) {
    this.write(item, `+${item.births.filter((born) => born <= number).length}`);
  }

  paint(item) {
    item.classes = item.looks + (item.lit ? " tg-lit" : "") + (item.thread ? " tg-thread" : "") + (item.hit ? " tg-hit" : "");
    item.words.paint(item.classes);
    item.bracket?.classList.toggle("tg-off", !item.on);
    this.repainted = true;
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
        this.write(item, item.lit || item.thread ? short(item.text, 16) : "");
      }
    }
    if (this.repainted) this.redraw();
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
