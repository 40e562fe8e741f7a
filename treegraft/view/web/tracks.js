// The two sliders: the rounds of the run as small columns of tokens, and the events of one round.

const EVENT_GROUPS = new Map([["prune", "select"], ["verify", "verify"], ["accept", "accept"], ["learn", "learn"]]);
const groupOf = (event) => EVENT_GROUPS.get(event.kind) || "draft";

class RoundTrack {
  constructor(view, go, tell) {
    this.view = view;
    this.reach = reachRows(view);
    this.bars = view.rounds.map((round) => element("span", { class: "tg-bar" },
      element("span", { class: "tg-tower" }, element("span", { class: "tg-bar-own" }),
        element("span", { class: "tg-bar-drafted", style: `--n:${round.accepted}` })),
      this.reach.map((row) => reachCell(round, row))));
    this.names = element("div", { class: "tg-reach-names" }, this.reach.map(({ name, help }) => element("button", {
      title: help, "aria-description": help, onclick: () => tell(`${help}.`) }, name)));
    const most = Math.max(...view.rounds.map((round) => round.accepted), 3);
    this.root = element("div", {
      class: "tg-rounds", role: "slider", tabindex: 0, "aria-label": "Round", style: `--most:${most}; --rows:${this.reach.length}`,
      "aria-valuemin": view.first, "aria-valuemax": view.first + view.rounds.length - 1,
    }, this.bars);
    slide(this.root, this.bars, (place) => go(view.first + place));
  }

  // Marks the rounds in which a search found something, given by round as sets.
  find(found) {
    this.bars.forEach((bar, place) => {
      const hits = found.get(this.view.first + place)?.size || 0;
      bar.classList.toggle("tg-found-round", hits > 0);
      bar.firstChild.title = `${towerWords(this.view.rounds[place])}${hits ? ` · ${hits} ${hits === 1 ? "hit" : "hits"}` : ""}`;
    });
  }

  show(round) {
    const here = round - this.view.first, accepted = this.view.rounds[here].accepted;
    this.bars.forEach((bar, place) => bar.classList.toggle("tg-here", place === here));
    this.root.setAttribute("aria-valuenow", round);
    this.root.setAttribute("aria-valuetext", `Round ${round}: ${accepted} drafted tokens accepted`);
    requestAnimationFrame(() => keepColumn(this.root, this.bars[here]));
  }
}

const towerWords = (round) => `Round ${round.index}: ${round.accepted} drafted and accepted, and the target’s own on top`;

// The rows under the rounds: how far the right tokens reached into the verified tree, the grown one, and each drafter's own.
function reachRows(view) {
  const drafters = view.drafters.filter(({ id }) => view.rounds.some((round) => id in round.oracle.alone));
  const right = "right tokens (those of the recorded text) in a row from the root";
  return !drafters.length ? [] : [
    { name: "verified tree", of: ({ verified }) => verified, help: `The longest run of ${right} among the tokens sent to the target` },
    { name: "grown tree", of: ({ grown }) => grown, help: `The longest run of ${right} in the whole tree, pruned tokens included` },
    ...drafters.map(({ id, name }) => ({ name, of: ({ alone }) => alone[id] ?? 0,
      help: `The longest run of ${right} that ${name} proposed itself, whoever else did; where it was not asked, nothing counts` }))];
}

// A number that is more than what was accepted is a gap, and set off.
function reachCell(round, { name, of }) {
  const count = of(round.oracle), gap = count - round.accepted;
  return element("span", { class: `tg-cell${gap > 0 ? " tg-gap" : ""}`, style: `--n:${count}`,
    title: `Round ${round.index}, ${name}: ${count} right${gap > 0 ? `, ${gap} more than accepted` : ""}` }, `${count}`);
}

class EventTrack {
  constructor(view, round, go) {
    this.round = round;
    this.view = view;
    this.steps = round.events.map((event) => element("span", {
      class: `tg-step tg-step-${groupOf(event)}`, title: eventTitle(view, event) }));
    this.layers = layersOf(round.events).map(({ first, size }) => ({ first, size, root: element("span", {
      class: `tg-layer${round.events[first].call ? " tg-call" : ""}${round.events[first].layer === undefined ? " tg-named" : ""}`, style: `--n:${Math.max(size, 1.6)}` },
    element("span", { class: "tg-steps" }, this.steps.slice(first, first + size)), layerName(round.events[first].title)) }));
    this.root = element("div", {
      class: "tg-events", role: "slider", tabindex: 0, "aria-label": "Event of the round",
      "aria-valuemin": 0, "aria-valuemax": Math.max(round.events.length - 1, 0),
    }, this.layers.map((layer) => layer.root));
    slide(this.root, this.steps, go);
  }

  // Takes on another round if it would look the same, and says whether it did.
  take(round) {
    const names = ({ events }) => JSON.stringify(events.map(({ kind, title, layer, drafter, call }) => [kind, title, layer, drafter, call]));
    if (names(round) !== names(this.round)) return false;
    this.round = round;
    return true;
  }

  show(number) {
    this.steps.forEach((step, place) => {
      step.classList.toggle("tg-done", place <= number);
      step.classList.toggle("tg-here", place === number);
    });
    for (const { first, size, root } of this.layers) root.classList.toggle("tg-here", number >= first && number < first + size);
    this.root.setAttribute("aria-valuenow", number);
    if (this.round.events[number]) {
      this.root.setAttribute("aria-valuetext", eventTitle(this.view, this.round.events[number]));
      requestAnimationFrame(() => keepColumn(this.root, this.steps[number]));
    }
  }
}

// Runs of events in the same layer; an event without a layer stands alone.
function layersOf(events) {
  const found = [];
  events.forEach(({ layer }, number) => {
    if (layer !== undefined && number && events[number - 1].layer === layer) found[found.length - 1].size += 1;
    else found.push({ first: number, size: 1 });
  });
  return found;
}

// Where there is little room, a layer loses its first word, then all but its number; another name all but its first word.
function layerName(title) {
  const [, word, short, rest] = title.match(/^(Layer )?(\S+?)([:\s].*)?$/) ?? [null, "", title, ""];
  return element("span", { class: "tg-step-name" }, element("span", { class: "tg-word" }, word || ""), short,
    element("span", { class: "tg-rest" }, rest || ""));
}

function eventTitle(view, event) {
  return event.drafter === undefined ? event.title : `${event.title} · ${drafterName(view, event.drafter)}`;
}

// Press or drag anywhere over the parts to choose the one under the pointer.
function slide(root, parts, choose) {
  let chosen = -1;
  const pick = (event) => {
    const place = parts.findIndex((part) => event.clientX < part.getBoundingClientRect().right);
    const found = place < 0 ? parts.length - 1 : place;
    if (found !== chosen && found >= 0) choose((chosen = found));
  };
  root.addEventListener("pointerdown", (event) => { chosen = -1; root.setPointerCapture(event.pointerId); pick(event); });
  root.addEventListener("pointermove", (event) => { if (root.hasPointerCapture(event.pointerId)) pick(event); });
}

function keepColumn(container, child) {
  const outer = container.getBoundingClientRect(), inner = child.getBoundingClientRect();
  if (inner.left < outer.left || inner.right > outer.right) container.scrollLeft += inner.left - outer.left - outer.width / 2;
}
