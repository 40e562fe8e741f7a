// Lines of words around the tree: heading, summary of the round, what the event did, tooltip, keys.

function heading(view) {
  const facts = [view.target, view.policy, ...view.drafters.map((drafter) => drafter.name)].join(" · ");
  return [
    element("details", { class: "tg-prompt" },
      element("summary", {}, element("h2", {}, view.title || "Recording"), element("span", { class: "tg-quiet" }, facts, " · ",
        element("span", { class: view.rule.lossy ? "tg-note" : undefined, title: view.rule.help || undefined }, view.decoding))),
      element("p", { class: "tg-prompt-text" }, view.prompt)),
  ];
}

function summaryLine(view, round) {
  const times = round.times, total = times.total;
  const parts = total ? [`${milliseconds(total)} ms`, ...["draft", "verify"].filter((phase) => times[phase]).map((phase) => `${phase} ${milliseconds(times[phase])}`)] : [];
  return [
    element("p", {}, sentence(view, round.say)),
    round.expects ? element("p", { class: "tg-quiet" }, sentence(view, round.expects)) : "",
    round.note ? element("p", { class: "tg-note" }, round.note) : "",
    parts.length ? element("p", { class: "tg-quiet tg-times" }, parts.join(" · ")) : "",
  ];
}

const spaced = (sentences) => sentences.flatMap((words, place) => [place ? " " : "", ...words]);

// How the tree grew and why it stopped, then how far the right tokens reached: marked where that is beyond what was accepted.
function storyLine(view, round) {
  const told = (packed) => spaced(packed.map((one) => sentence(view, one)));
  return [...told(round.story), " ", element("span", { class: round.oracle.grown > round.accepted ? "tg-gap-words" : undefined }, told(round.oracle.say))];
}

function eventLine(view, round, number) {
  const event = round.events[number];
  if (!event) return ["No events in this round."];
  return [element("span", { class: `tg-tag tg-tag-${groupOf(event)}${event.call ? " tg-tag-call" : ""}` }, event.title), " ", ...sentence(view, event.say)];
}

const plain = (parts) => parts.map((part) => (typeof part === "string" ? part : `“${part.textContent}”`)).join("");

function tipOf(view, round, item, number) {
  if (item.kind === "stub") return [element("span", {}, `${item.text.slice(1)} pruned tokens: click to see them`)];
  const facts = [];
  if (item.kind === "bonus") facts.push("the target’s own choice");
  else if (item.node) {
    if (round.q[item.node] !== null) facts.push(`q ${prob(round.q[item.node])}`);
    if (round.logprob[item.node] !== null) facts.push(`p ${prob(round.logprob[item.node])}`);
    if (item.node in round.row) facts.push(rowRank(round, item.node));
    facts.push(...moveWords(round, item.node, number), FATE_WORDS[item.fate]);
  } else facts.push("root");
  return [chip(item.text, 40), " ", element("span", { class: "tg-quiet" }, facts.join(" · "))];
}

// What the event shown did to a node's score and rank.
function moveWords(round, node, number) {
  if (round.events[number]?.kind !== "rescore") return [];
  return movesOf(round, number).filter((move) => move.node === node)
    .map(({ before, after, from, to }) => `score ${bareScore(before)} → ${bareScore(after)}, rank ${from} → ${to}`);
}

// Beside the pointer, inside the frame.
function placeTip(tip, stage, event) {
  const box = stage.getBoundingClientRect();
  const x = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
  const y = event.clientY - box.top + 18;
  const above = y + tip.offsetHeight > box.height ? -tip.offsetHeight - 30 : 0;
  tip.style.transform = `translate(${Math.max(4, x)}px, ${y + above}px)`;
}

// What a term means, for its hover title.
const TERMS = new Map(Object.entries({
  q: "the drafter’s probability of the token after its parent", p: "the target’s probability of the token after its parent",
  score: "the sum of the drafter’s log-probabilities from the root to the token, in nats: 0 is the best",
  rank: "the token’s place among all drafted ones of the round by score; 1 is the best",
  fate: "what became of the token", depth: "how many tokens after the root", drafter: "who proposed the token first",
  "Drafter’s q": "q: the drafter’s probability of the token after its parent",
  "Target’s p": "p: the target’s probability of the token after its parent",
  "Rank under target": "the token’s place among all next tokens by the target’s probability; 1 is its favourite",
  Score: "the sum of the drafter’s log-probabilities from the root to the token, in nats: 0 is the best",
  "Rank by score": "the token’s place among all drafted ones of the round; the best go to the target",
  Chance: "how likely the rule is to accept the token once it has accepted its parent",
  "Expected below": "how many more tokens the rule accepts on average after this one",
  Margin: "the milliseconds that the scheduler expects a call to save", Threshold: "a call is made where the margin is above it",
  Frontier: "the tokens that the layer continues from", Copied: "where in the text so far the token was copied from",
}));

// A term that tells its meaning to pointer, finger and keyboard.
function termOf(name, means = TERMS.get(name)) {
  return means ? element("span", { class: "tg-term", tabindex: 0, "data-means": means, "aria-description": means }, name) : name;
}

const KEYS = [
  ["← →", "previous, next event"], ["Shift ← →", "previous, next round"], ["Home End", "first, last round"],
  ["Space", "play, pause"], ["R", "next rejection"], ["C", "next call of the strong drafter"], ["G", "next graft"],
  ["A", "next round with all of a branch accepted"], ["W", "worst round, then the next worst: the fewest accepted"],
  ["D", "next token that was not the target’s favourite (sampled runs)"], ["/", "search"], ["N Shift N", "next, previous hit"],
  ["E", "events as a list or as a slider"], ["T", "tokens as a table or as a tree"],
  ["↑ ↓", "choose a token in the same layer"], [", .", "choose the parent, the best child"],
  ["L", "label every token"], ["F", "the whole tree, or a frame"], ["Esc", "close, let go, stop"], ["?", "this sheet"],
];

function helpSheet(close) {
  return element("div", { class: "tg-help", role: "dialog", "aria-modal": "true", "aria-label": "Keys", onclick: (event) => { if (event.target === event.currentTarget) close(); } },
    element("div", { class: "tg-help-card" },
      element("header", {}, element("h3", {}, "Keys"), element("button", { class: "tg-icon", "aria-label": "Close", onclick: close }, icon("close"))),
      element("dl", {}, KEYS.map(([keys, words]) => [
        element("dt", {}, keys.split(" ").map((key) => element("kbd", {}, key))), element("dd", {}, words)]))));
}

const ICONS = {
  list: "M6 4h7M6 8h7M6 12h7M3 4h.01M3 8h.01M3 12h.01", table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.5 3.5v9",
  labels: "M3.5 5V3.5h9V5M8 3.5v9M6.2 12.5h3.6",
  whole: "M8 2v12M5 4.8L8 2l3 2.8M5 11.2L8 14l3-2.8",
  play: "M5 3.2v9.6L13 8z", pause: "M4 3h3v10H4zM9 3h3v10H9z", next: "M6 3.5l4.5 4.5L6 12.5",
  back: "M10 3.5L5.5 8l4.5 4.5", last: "M4 3.5L8.5 8 4 12.5M8.5 3.5L13 8l-4.5 4.5", first: "M12 3.5L7.5 8l4.5 4.5M7.5 3.5L3 8l4.5 4.5",
  close: "M4 4l8 8M12 4l-8 8", save: "M8 2.5v7.2M4.8 6.8L8 10l3.2-3.2M3 13.3h10",
};

function icon(name) {
  const filled = name === "play" || name === "pause";
  return vector("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true",
    fill: filled ? "currentColor" : "none", stroke: filled ? "none" : "currentColor", "stroke-width": 1.6,
    "stroke-linecap": "round", "stroke-linejoin": "round" }, vector("path", { d: ICONS[name] }));
}

function isDark(color) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = "#ffffff";
  probe.fillStyle = color.trim() || "#ffffff";
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}
