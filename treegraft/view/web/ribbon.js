// The text that was copied from, on one line above the tree: what is copied is marked in it, with lines to its nodes.

const MOST_LINES = 16;

class Ribbon {
  constructor(context) {
    Object.assign(this, { places: new Map(), marked: [], links: null });
    this.lines = vector("svg", { class: "tg-lines", "aria-hidden": "true" });
    this.root = element("div", { class: "tg-ribbon", tabindex: 0, role: "group", "aria-label": "Text that is copied from" });
    for (const [first, texts] of context?.segments || []) {
      if (first > 0) this.root.append(element("span", { class: "tg-cut" }, " … "));
      texts.forEach((text, place) => this.put(first + place, text, context.prompt));
    }
    this.root.addEventListener("scroll", () => this.draw(), { passive: true });
  }

  put(position, text, prompt) {
    const made = element("span", { class: position < prompt ? "tg-from-prompt" : "tg-from-output",
      title: `position ${position}, ${position < prompt ? "prompt" : "output"}` }, text);
    this.places.set(position, made);
    this.root.append(made);
  }

  // Takes away what the round could not see yet.
  open(round) {
    for (const [position, part] of this.places) part.hidden = position >= round.context;
    this.links = null;
  }

  // Marks what these nodes were copied from, and what before it matched the end of the text.
  show(round, nodes, scene, stage) {
    const key = `${round.index} ${nodes.join()}`;
    Object.assign(this, { scene, stage });
    if (key !== this.key || !this.links) {
      this.key = key;
      for (const part of this.marked) part.classList.remove("tg-copied", "tg-matched");
      this.links = nodes.map((node) => ({ node, part: this.places.get(round.copied[node][1]) })).filter(({ part }) => part);
      this.marked = [];
      for (const node of nodes) this.markSpan(round, node, new Set(nodes));
      for (const { part } of this.links) this.light(part, "tg-copied");
      const first = this.links[0]?.part;
      requestAnimationFrame(() => {
        const from = first || this.lastSeen();
        if (from) this.root.scrollLeft = from.offsetLeft - this.root.clientWidth / (first ? 3 : 1) + (first ? 0 : from.offsetWidth + 12);
        this.draw();
      });
    } else requestAnimationFrame(() => this.draw());
  }

  markSpan(round, node, nodes) {
    const [match, source] = round.copied[node];
    if (source === null || (nodes.has(round.parent[node]) && round.copied[round.parent[node]]?.[1] === source - 1)) return;
    for (let place = source - 1; place >= source - match && this.places.has(place); place -= 1) {
      this.light(this.places.get(place), "tg-matched");
    }
  }

  light(part, name) {
    part.classList.add(name);
    this.marked.push(part);
  }

  lastSeen() {
    return [...this.places.values()].reverse().find((part) => !part.hidden);
  }

  // Lines from the marked tokens to those of their nodes that are in sight.
  draw() {
    const { scene, stage, root } = this;
    if (!scene) return;
    const paths = [];
    for (const { node, part } of (this.links || []).slice(0, MOST_LINES)) {
      const item = scene.byId.get(node);
      const x = part.offsetLeft + part.offsetWidth / 2 - root.scrollLeft;
      if (!item?.on || x < 0 || x > root.clientWidth) continue;
      const toX = item.x - stage.scrollLeft, toY = item.y - stage.scrollTop;
      if (toX < 0 || toX > stage.clientWidth || toY < 0 || toY > stage.clientHeight) continue;
      const from = root.offsetTop + root.offsetHeight - 4, to = stage.offsetTop + toY - scene.items[0].radius - 3;
      const middle = (from + to) / 2;
      paths.push(vector("path", { class: graftClass(item.drafter), d: `M${x.toFixed(1)},${from.toFixed(1)}C${x.toFixed(1)},${middle.toFixed(1)} ${toX.toFixed(1)},${middle.toFixed(1)} ${toX.toFixed(1)},${to.toFixed(1)}` }));
    }
    this.lines.replaceChildren(...paths);
  }
}

// The copied nodes that the ribbon is about: those on the way to the node pointed at, else those that the event copied.
function copiedNodes(round, number, node) {
  const from = (one) => round.copied[one] && round.copied[one][1] !== null;
  if (typeof node === "number" && from(node)) {
    const path = [];
    for (let one = node; one > 0 && from(one) && round.born[one] === round.born[node]; one = round.parent[one]) path.unshift(one);
    return path;
  }
  if (round.events[number]?.kind !== "expand") return [];
  return byRank(round, round.born.map((born, one) => (born === number ? one : -1)).filter((one) => one > 0 && from(one)));
}
