// The shape of a drafter's nodes and the dash of its edges; fates have colours, so the two can be told apart at once.

// Paths that start from where the pen stands.
const SHAPES = [
  (r) => `m${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  (r) => polygon(r * 1.22, 4, 45),
  (r) => polygon(r * 1.3, 4, 0),
  (r) => polygon(r * 1.35, 3, -90),
  (r) => polygon(r * 1.15, 6, 0),
  (r) => polygon(r * 1.35, 3, 90),
];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 4"];

function polygon(radius, corners, turn) {
  const at = (corner) => {
    const angle = ((turn + (360 / corners) * corner) * Math.PI) / 180;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  };
  const from = (corner) => at(corner).map((value, axis) => (value - (corner ? at(corner - 1)[axis] : 0)).toFixed(2)).join();
  return `m${Array.from({ length: corners }, (_, corner) => from(corner)).join("l")}z`;
}

const markerPath = (drafter, radius) => SHAPES[Math.max(drafter, 0) % SHAPES.length](tenth(radius));

// A small picture of one marker, for legends and sheets.
function marker(drafter, fate, size = 14) {
  const path = fate === "bonus" ? bonusPath(4.2) : markerPath(drafter, 4.4);
  return vector("svg", { class: "tg-marker", width: size, height: size, viewBox: "-7 -7 14 14", "aria-hidden": "true" },
    vector("path", { d: path, class: `tg-mark tg-${fate}` }), fate === "rejected" ? crossing() : null);
}

const crossAt = (x, y) => `M${x},${y}m-1.9,-1.9l3.8,3.8m0,-3.8l-3.8,3.8`;
const crossing = () => vector("path", { class: "tg-cross", d: crossAt(0, 0) });

// The bonus is a ring around a point: the target's own token, drafted by nobody.
function bonusPath(radius) {
  const outer = tenth(radius * 1.35);
  return `${SHAPES[0](outer)}m${outer},0${SHAPES[0](tenth(radius * 0.55))}`;
}

function edgeSample(drafter) {
  return vector("svg", { class: "tg-marker", width: 34, height: 14, viewBox: "0 -7 34 14", "aria-hidden": "true" },
    vector("path", { d: "M1,0H22", class: "tg-edge", "stroke-width": 1.6, "stroke-dasharray": DASHES[drafter % DASHES.length] }),
    vector("path", { d: markerPath(drafter, 4.4), transform: "translate(27,0)", class: "tg-mark tg-neutral" }));
}

// An edge to a grafted token: its dash says so, its colour is the drafter's.
const GRAFT_DASH = "3 2";
const graftClass = (drafter) => `tg-graft tg-graft-${Math.max(drafter, 0) % 2}`;

function graftSample(drafter) {
  return vector("svg", { class: "tg-marker", width: 34, height: 14, viewBox: "0 -7 34 14", "aria-hidden": "true" },
    vector("path", { d: "M1,0H22", class: `tg-edge ${graftClass(drafter)}`, "stroke-width": 2.2, "stroke-dasharray": GRAFT_DASH }),
    vector("path", { d: markerPath(drafter, 4.4), transform: "translate(27,0)", class: "tg-mark tg-neutral" }));
}

const wallSample = () => vector("svg", { class: "tg-marker tg-wall", width: 34, height: 14, viewBox: "0 -7 34 14", "aria-hidden": "true" },
  vector("line", { x1: 17, x2: 17, y1: -7, y2: 7 }));

// Signs beside a node: its score rose or fell, its token cannot be proposed, or what follows it was learned anew.
const MOVES = { risen: "M-3.6,3L0,-3.6L3.6,3Z", fallen: "M-3.6,-3L0,3.6L3.6,-3Z", lost: "M-3,-3L3,3M-3,3L3,-3", learned: "M-3,0H3M0,-3V3" };

const move = (name, attributes = {}) => vector("path", { class: `tg-move tg-move-${name}`, d: MOVES[name], ...attributes });
const frontier = (name, radius, attributes = {}) => vector("circle", { class: `tg-frontier tg-frontier-${name}`, r: radius, ...attributes });

// How a node or the bonus is drawn, for what it has become: what counts is larger.
const SIZES = new Map([["tg-accepted", 1.42], ["tg-root", 1.42], ["tg-discarded", 1.42], ["tg-pruned", 0.76]]);

function markAt(item) {
  const radius = item.radius * (SIZES.get(item.classes.split(" ")[1]) ?? 1);
  return `M${tenth(item.x)},${tenth(item.y)}${item.kind === "bonus" ? bonusPath(radius) : markerPath(item.drafter, radius)}`;
}

const markLook = (item, shade) => ({ class: `tg-mark tg-item ${item.classes}`, style: shade || undefined });

function sample(...parts) {
  return vector("svg", { class: "tg-marker", width: 18, height: 18, viewBox: "-9 -9 18 18", "aria-hidden": "true" }, parts);
}

const moveSample = (name) => sample(move(name));
const ring = (name) => sample(vector("path", { d: markerPath(0, 3.4), class: `tg-mark tg-${name === "left" ? "neutral" : "new"}` }), frontier(name, 7));

// Brackets around a node: it was found by the search.
const hitMark = (half, attributes) => vector("path", { class: "tg-hit-mark", ...attributes,
  d: [-1, 1].map((side) => `M${side * (half - 3)},-5H${side * half}V5H${side * (half - 3)}`).join("") });

// How an edge is drawn: wider for what was more probable to the drafter, in steps, so that many look the same.
const EDGE_CLASSES = new Set(["accepted", "rejected", "unreached", "pruned", "bonus", "stub", "new", "lit", "thread", "hit"].map((name) => `tg-${name}`));
const WIDTH_STEP = 0.4;

const edgeWidth = (logprob) => WIDTH_STEP * (2 + Math.round((2.6 / WIDTH_STEP) * Math.sqrt(chance(logprob))));

function edgeLook(item, probable) {
  const classes = item.classes.split(" ").filter((name) => EDGE_CLASSES.has(name));
  if (item.grafted) classes.push(graftClass(item.drafter));
  const thin = item.kind !== "node" || classes.includes("tg-pruned");  // as wide as the style sheet says
  const width = Math.max(probable, item.grafted ? 1.6 : 0) + (classes.includes("tg-accepted") ? 1.6 : 0);
  return { class: ["tg-edge", ...classes].join(" "), "stroke-width": thin ? undefined : width.toFixed(1),
    "stroke-dasharray": (item.kind === "bonus" ? "1 4" : item.grafted ? GRAFT_DASH : DASHES[Math.max(item.drafter, 0) % DASHES.length]) || undefined };
}

// How far in front something of these classes is drawn.
const inFront = (classes) => (/tg-(lit|thread|accepted)/.test(classes) ? 2 : /tg-(pruned|stub)/.test(classes) ? 0 : 1);
