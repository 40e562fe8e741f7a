// The tree as a file of its own: styles are written into the copy, so that it looks the same anywhere.

const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "paint-order", "stroke-linejoin", "stroke-linecap", "transform"];
const CAPTION = 46;

function pictureOf(scene, words, root) {
  const style = getComputedStyle(root);
  const copy = inlined(scene.svg);
  const { width, height } = scene;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 ${-CAPTION} ${width} ${height + CAPTION}`);
  copy.setAttribute("height", height + CAPTION);
  copy.removeAttribute("class");
  const text = (y, size, weight, content) => vector("text", { x: MARGIN, y, fill: style.color, "font-size": size,
    "font-weight": weight, "font-family": style.fontFamily }, content);
  copy.prepend(
    vector("rect", { x: 0, y: -CAPTION, width, height: height + CAPTION, fill: style.getPropertyValue("--tg-page").trim() || "#fff" }),
    text(-CAPTION + 22, 14, 600, words.title), text(-CAPTION + 40, 12, 400, words.summary));
  return copy;
}

function inlined(svg) {
  const copy = svg.cloneNode(true);
  const pairs = [...svg.querySelectorAll("*")].map((one, place) => [one, place]);
  const copies = [...copy.querySelectorAll("*")];
  for (const [one, place] of pairs) {
    const style = getComputedStyle(one), target = copies[place];
    const off = style.opacity === "0" || style.display === "none";
    if (off && !target.querySelector("*")) { target.remove(); continue; }
    target.removeAttribute("class");
    target.setAttribute("style", STYLED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  }
  return copy;
}

async function saveSvg(picture, name) {
  download(new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }), `${name}.svg`);
}

async function savePng(picture, name) {
  const width = Number(picture.getAttribute("width")), height = Number(picture.getAttribute("height"));
  const scale = Math.min(2, 8192 / Math.max(width, height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const canvas = element("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  download(blob, `${name}.png`);
}

function download(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
