// The SVG elements of a tree. They are kept from one tree to the next and written to only where something has changed:
// that costs the browser a fraction of making them anew.

class Part {
  constructor(tag, attributes, ...children) {
    this.element = vector(tag, attributes, ...children);
    this.written = { ...attributes };
  }

  set(attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      if (this.written[name] === value) continue;
      this.written[name] = value;
      if (value === undefined) this.element.removeAttribute(name);
      else this.element.setAttribute(name, value);
    }
  }
}

// A node, the bonus or a stub: a shape, and words beside it if it has any.
class Mark extends Part {
  constructor() {
    const shape = new Part("path", { class: "tg-mark" });
    super("g", {}, shape.element);
    this.shape = shape;
    this.words = new Part("text", { y: "0.34em" });
  }

  // A sign of its own beside the shape, null for none.
  sign(made) {
    this.made?.remove();
    this.made = made;
    if (made) this.element.prepend(made);
  }

  // A cross on the shape: its fate can be told without its colour.
  crossed(on) {
    if (on) this.shape.element.after((this.cross ||= crossing()));
    else this.cross?.remove();
  }

  bracket(made) {
    this.around?.remove();
    this.around = made;
    if (made) this.element.append(made);
  }

  draw(path) {
    this.shape.set({ d: path });
  }

  write(label, x) {
    if (label) this.words.set({ x });
    if (label === this.label) return;
    this.label = label;
    this.fill(labelParts(label));
    if (!label) this.words.element.remove();
    else if (!this.words.element.parentNode) this.element.append(this.words.element);
  }

  // Signs and letters change places seldom: where they do not, the elements stay.
  fill(parts) {
    const form = parts.map((part) => (part.sign ? "s" : "l")).join(""), box = this.words.element;
    if (form === this.form) parts.forEach(({ text }, place) => { leaf(box.childNodes[place]).data = text; });
    else box.replaceChildren(...parts.map(({ sign, text }) => (sign ? vector("tspan", { class: "tg-sign" }, text) : text)));
    this.form = form;
  }
}

const leaf = (node) => node.firstChild ?? node;

class Canvas {
  constructor() {
    Object.assign(this, { marks: [], links: [], wall: null });
    this.edges = vector("g", { class: "tg-edges" });
    this.nodes = vector("g", { class: "tg-nodes" });
    this.notes = vector("g", { class: "tg-notes" });
    this.ring = new Part("circle", { class: "tg-ring", r: RADIUS + 4, visibility: "hidden" });
    this.root = new Part("svg", { class: "tg-tree", role: "img" }, this.edges, this.ring.element, this.nodes, this.notes);
    this.svg = this.root.element;
  }

  begin(width, height, wall) {
    this.root.set({ width, height, viewBox: `0 0 ${width} ${height}` });
    this.svg.classList.remove("tg-dim");
    this.notes.replaceChildren();
    this.wall?.remove();
    this.wall = wall;
    if (wall) this.svg.prepend(wall);
  }

  mark(place) {
    const mark = (this.marks[place] ||= new Mark());
    if (mark.element.parentNode !== this.nodes) this.nodes.append(mark.element);
    mark.sign(null);
    mark.bracket(null);
    return mark;
  }

  edge(place) {
    const edge = (this.links[place] ||= new Part("path", {}));
    if (edge.element.parentNode !== this.edges) this.edges.append(edge.element);
    return edge;
  }

  // Takes away what the tree before had more.
  trim(marks, links) {
    for (const part of [...this.marks.splice(marks), ...this.links.splice(links)]) part.element.remove();
  }
}
