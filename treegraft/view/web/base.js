// Helpers that everything else uses. Text reaches the page through text nodes alone: a trace may come from anyone.

const NATS = 100000;
const FATE = {
  o: "root", a: "accepted", r: "rejected", u: "unreached", p: "pruned", d: "discarded",
};
const FATE_WORDS = {
  root: "root", accepted: "accepted", rejected: "rejected", unreached: "not reached", pruned: "pruned",
  discarded: "discarded", bonus: "target’s own",
};

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function vector(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...joined(children));
  return made;
}

// Children in one row, without those that are nothing, and texts that follow each other as one: each takes a layout.
function joined(children) {
  const parts = [];
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    if (typeof child === "string" && typeof parts.at(-1) === "string") parts.push(parts.pop() + child);
    else parts.push(child);
  }
  return parts;
}

const tenth = (pixels) => Math.round(pixels * 10) / 10;

const nats = (units) => (units / NATS).toFixed(2).replace("-", "−");

const bareScore = (units) => (units === null ? "none" : nats(units));

const decimal = (value) => value.toFixed(2).replace("-", "−");

const level = (value) => value.toFixed(3).replace("-", "−");

// The probability of a log-probability; a trace may hold nonsense above zero.
const chance = (units) => (units === null || units === undefined ? 0 : Math.exp(Math.min(units, 0) / NATS));

function prob(units) {
  const p = chance(units);
  return p >= 0.001 ? p.toFixed(3) : "<0.001";
}

const equation = (units) => `p = ${prob(units)}`.replace("= <", "< ");

const milliseconds = (microseconds) => (microseconds / 1000).toFixed(1);

function short(text, length) {
  const letters = Array.from(text);
  return letters.length <= length ? text : letters.slice(0, length - 1).join("") + "…";
}

// A token's label, its signs (spaces, line breaks, escapes) set apart so that they are not read as letters.
function labelParts(text) {
  return text.split(/(·|↵|⇥|◌|∅|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})/)
    .map((part, place) => ({ text: part, sign: place % 2 === 1 })).filter((part) => part.text);
}

function chip(text, length = 60) {
  const parts = labelParts(short(text, length));
  return element("span", { class: "tg-chip", title: text.length > length ? text : undefined },
    parts.map((part) => (part.sign ? element("span", { class: "tg-sign" }, part.text) : part.text)));
}

// A sentence of the view: its template's text and fields, filled from the packed values and from known facts.
function sentence(view, packed, facts = {}) {
  const values = packed.slice(1);
  const known = { ...facts };
  const taken = new Set();
  const format = {
    count: String, text: String, nats, prob, p: equation, ms: milliseconds, number: decimal, level,
    score: (units) => (units === null ? "no score" : `${nats(units)} nats`),
    drafter: (id) => drafterName(view, id),
    token: (id) => chip(piece(view, id), 24),
    tokens: (ids) => chip(ids.map((id) => piece(view, id)).join(""), 60),
  };
  return view.templates[packed[0]].flatMap(([text, name, kind]) => {
    if (name === null) return [text];
    if (!taken.has(name) && !(name in facts)) known[name] = values.shift();
    taken.add(name);
    const [one, many] = kind.split("|");
    return [text, many === undefined ? format[one](known[name]) : known[name] === 1 ? one : many];
  });
}

const piece = (view, token) => view.pieces[token] ?? `#${token}`;

function drafterName(view, id) {
  const known = view.drafters.find((drafter) => drafter.id === id);
  return known ? known.name : `drafter ${id}`;
}
