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

// Tells how wide a label is. Off the screen: a canvas of the page would first style what has changed in it.
function rulerOf(root) {
  const ruler = new OffscreenCanvas(1, 1).getContext("2d"), widths = new Map();
  ruler.font = `600 12.5px ${getComputedStyle(root).fontFamily}`;
  return (text) => {
    if (!widths.has(text)) widths.set(text, ruler.measureText(text).width);
    return widths.get(text);
  };
}

// What looks the same, as one element: a browser styles a few elements faster than hundreds.
class Looks {
  constructor() {
    this.found = new Map();
  }

  // Things of the same name look the same: `look` gives the attributes.
  add(name, path, look) {
    if (!this.found.has(name)) this.found.set(name, { name, look: look(), paths: [] });
    this.found.get(name).paths.push(path);
  }

  get attributes() {
    const order = ({ look }) => inFront(look.class);
    return [...this.found.values()].sort((one, other) => order(one) - order(other) || (one.name < other.name ? -1 : 1))
      .map(({ look, paths }) => ({ ...look, d: paths.join("") }));
  }
}

// A layer of paths.
class Layer {
  constructor(name) {
    this.element = vector("g", { class: name });
    this.parts = [];
  }

  draw(looks) {
    const wanted = looks.attributes;
    for (const part of this.parts.splice(wanted.length)) part.element.remove();
    wanted.forEach((attributes, place) => {
      if (!this.parts[place]) this.element.append((this.parts[place] = new Part("path", {})).element);
      this.parts[place].set(attributes);
    });
  }
}

// The words beside a node, the bonus or a stub, if it has any.
class Label {
  constructor(layer) {
    this.layer = layer;
    this.words = "";
  }

  write(words, x, y) {
    if (!words && !this.words) return;
    this.text ||= new Part("text", { dy: "0.34em" });
    this.text.set({ x, y });
    if (words === this.words) return;
    this.words = words;
    this.fill(labelParts(words));
    if (!words) this.text.element.remove();
    else if (!this.text.element.parentNode) this.layer.append(this.text.element);
  }

  paint(classes) {
    if (this.words) this.text.set({ class: `tg-label ${classes}` });
  }

  // Signs and letters change places seldom: where they do not, the elements stay.
  fill(parts) {
    const form = parts.map((part) => (part.sign ? "s" : "l")).join(""), box = this.text.element;
    if (form === this.form) parts.forEach(({ text }, place) => { leaf(box.childNodes[place]).data = text; });
    else box.replaceChildren(...parts.map(({ sign, text }) => (sign ? vector("tspan", { class: "tg-sign" }, text) : text)));
    this.form = form;
  }
}

const leaf = (node) => node.firstChild ?? node;

class Canvas {
  constructor() {
    Object.assign(this, { labels: [], wall: null, edges: new Layer("tg-edges"), marks: new Layer("tg-marks") });
    for (const layer of ["signs", "letters", "notes"]) this[layer] = vector("g", { class: `tg-${layer}` });
    this.ring = new Part("circle", { class: "tg-ring", r: RADIUS + 4, visibility: "hidden" });
    this.crosses = new Part("path", { class: "tg-cross" });
    this.root = new Part("svg", { class: "tg-tree", role: "img" }, this.edges.element, this.ring.element, this.signs,
      this.marks.element, this.crosses.element, this.letters, this.notes);
    this.svg = this.root.element;
  }

  // Prepares for a tree of so many items; the labels that it has are those of the tree before.
  begin(width, height, wall, items) {
    this.root.set({ width, height, viewBox: `0 0 ${width} ${height}` });
    this.svg.classList.remove("tg-dim");
    this.signs.replaceChildren();
    this.notes.replaceChildren();
    this.wall?.remove();
    this.wall = wall;
    if (wall) this.svg.prepend(wall);
    for (const label of this.labels.splice(items)) label.write("");
    while (this.labels.length < items) this.labels.push(new Label(this.letters));
  }
}
