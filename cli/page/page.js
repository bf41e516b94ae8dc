// Names come from models, which nobody has to trust: they reach the page as text nodes and attribute values, never as HTML.
"use strict";

const CHUNK = 100;
const byId = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

async function read() {
  const text = byId("data").textContent;
  if (text[0] === "{") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/* ---- the nodes of one side of a change as a graph ---- */

const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "\u2026" : text);
const isCast = (op) => /^(Cast|CastLike|BitCast|castsmith\.ConvertPromoteTypes\w*)$/.test(op);

function graphOf(drawing, around) {
  const nodes = drawing.map((node) => ({ ...node, note: node.op === "constant" ? node.note : clip(node.note, 22) })), edges = [], maker = new Map();
  nodes.forEach((node, index) => node.outs.forEach((name, i) => maker.set(name, [index, node.outTypes[i] || ""])));
  const count = nodes.length, used = new Set();
  for (let index = 0; index < count; index++) {
    nodes[index].ins.forEach((name, i) => {
      if (!name) return;
      if (!maker.has(name)) {
        const known = around[name];
        nodes.push({ op: known && known[0] ? known[0] : "", outs: [name], ins: [], outTypes: [], inTypes: [], note: name, ghost: true });
        maker.set(name, [nodes.length - 1, nodes[index].inTypes[i]]);
      }
      const [from, type] = maker.get(name);
      if (from === index) return;
      used.add(name);
      edges.push({ from, to: index, type: nodes[index].inTypes[i] || type });
    });
  }
  for (let index = 0; index < count; index++) {
    nodes[index].outs.forEach((name, i) => {
      const known = around[name], consumers = known ? known[1] : [];
      if (used.has(name) || (nodes[index].op === "constant" && count > 1)) return;
      for (const op of consumers.length ? consumers : [""]) {
        nodes.push({ op, outs: [], ins: [], outTypes: [], inTypes: [], note: name, ghost: true });
        edges.push({ from: index, to: nodes.length - 1, type: nodes[index].outTypes[i] || "" });
      }
    });
  }
  return { nodes, edges };
}

/* ---- a layered drawing, left to right ---- */

function layers({ nodes, edges }) {
  const layer = nodes.map(() => 0);
  for (let turn = 0, moved = true; moved && turn <= nodes.length; turn++) {
    moved = false;
    for (const { from, to } of edges) if (layer[to] <= layer[from]) { layer[to] = layer[from] + 1; moved = true; }
  }
  nodes.forEach((node, index) => {
    const next = edges.filter((edge) => edge.from === index).map((edge) => layer[edge.to]);
    if (!edges.some((edge) => edge.to === index) && next.length) layer[index] = Math.min(...next) - 1;
  });
  const columns = [];
  layer.forEach((at, index) => (columns[at] = columns[at] || []).push(index));
  const filled = columns.filter(Boolean), place = [];
  for (const column of filled) {
    const weight = (index) => {
      const before = edges.filter((edge) => edge.to === index && place[edge.from] !== undefined).map((edge) => place[edge.from]);
      return before.length ? before.reduce((a, b) => a + b) / before.length : 0;
    };
    const weights = new Map(column.map((index) => [index, weight(index)]));
    column.sort((a, b) => weights.get(a) - weights.get(b) || a - b);
    column.forEach((index, i) => (place[index] = i - (column.length - 1) / 2));
  }
  return filled;
}

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const WIDE = 6.7, SMALL = 5.9, TYPE = 6.4, HEIGHT = 38, GAP = 26;

function picture(drawing, around, label) {
  const graph = graphOf(drawing, around), columns = layers(graph), box = [];
  let x = 6, tallest = Math.max(...columns.map((column) => column.length));
  const height = tallest * (HEIGHT + GAP) + 8;
  for (const column of columns) {
    let widest = 0, label = 0;
    column.forEach((index, i) => {
      const node = graph.nodes[index], title = node.ghost ? node.op || "" : node.op;
      const width = Math.max(title.length * WIDE, clip(node.note, 24).length * SMALL) + 18;
      const y = (height - column.length * (HEIGHT + GAP) + GAP) / 2 + i * (HEIGHT + GAP);
      box[index] = { x, y, width, lead: 0 };
      widest = Math.max(widest, width);
    });
    for (const edge of graph.edges) if (column.includes(edge.from)) label = Math.max(label, clip(edge.type, 26).length * TYPE);
    column.forEach((index) => (box[index].width = graph.nodes[index].ghost ? box[index].width : Math.max(box[index].width, 40)));
    column.forEach((index) => (box[index].lead = x + widest + (label ? label + 10 : 0)));
    x += widest + (label ? label + 44 : 34);
  }
  const svg = draw("svg", { width: x, height, viewBox: `0 0 ${x} ${height}`, role: "img", "aria-label": label });
  const labelled = new Set();
  for (const { from, to, type } of graph.edges) {
    const a = box[from], b = box[to], x1 = a.x + a.width, y1 = a.y + HEIGHT / 2, y2 = b.y + HEIGHT / 2;
    const lead = Math.min(a.lead, b.x - 10), bend = Math.max(10, (b.x - lead) / 2);
    svg.append(draw("path", { d: `M${x1},${y1}H${lead}C${lead + bend},${y1} ${b.x - bend},${y2} ${b.x},${y2}` }));
    if (!labelled.has(from + type) && type) {
      labelled.add(from + type);
      svg.append(draw("text", { x: x1 + 6, y: y1 - 5, class: "type" }, clip(type, 26)));
    }
  }
  graph.nodes.forEach((node, index) => {
    const { x, y, width } = box[index], kind = node.ghost ? "ghost" : node.op === "constant" ? "constant" : isCast(node.op) ? "cast" : "";
    const group = draw("g", {}), middle = x + width / 2, alone = !node.note || !node.op;
    group.append(draw("title", {}, [node.op, node.note, node.outs.join(", ")].filter(Boolean).join("\n")));
    group.append(draw("rect", { x, y, width, height: HEIGHT, rx: node.ghost ? 19 : 6, class: "box " + kind }));
    if (node.op) group.append(draw("text", { x: middle, y: y + (alone ? 23 : 16), "text-anchor": "middle", class: node.ghost ? "ghosted" : "" }, node.op));
    if (node.note) group.append(draw("text", { x: middle, y: y + (alone ? 23 : 30), "text-anchor": "middle", class: "small" }, clip(node.note, 24)));
    svg.append(group);
  });
  return svg;
}

/* ---- the page ---- */

function start(data) {
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("sub").textContent = data.sub;
  for (const [name, value] of data.figures) byId("summary").append(element("div", { class: "figure" }, element("span", {}, name), element("b", {}, value)));
  const items = data.items.map((item) => ({ ...item, text: [item.place, item.rule, item.group, item.reason, item.before, item.after].join("\n").toLowerCase() }));
  const groups = new Map();
  for (const item of items) {
    const key = JSON.stringify([item.kind, item.group, item.rule]);
    groups.set(key, (groups.get(key) || 0) + 1);
  }
  const kinds = [...new Set(items.map((item) => item.kind))];
  byId("kind").append(element("option", { value: "" }, "everything"), ...kinds.map((kind) => element("option", { value: kind }, kind)));
  byId("group").append(element("option", { value: "" }, "all rules"), ...[...groups].map(([key, count]) => {
    const [kind, group, rule] = JSON.parse(key);
    return element("option", { value: key }, `${rule}${kind === "rewrite" || kind === "change" ? "" : " (" + kind + ")"} ${count}`);
  }));
  if (kinds.length < 2) byId("kind").hidden = true;
  if (groups.size) byId("summary").append(rulesTable(groups));
  if (data.map && data.map.length) byId("summary").append(precisionMap(data.map));
  let shown = [], drawn = 0, current = -1;

  function precisionMap(nodes) {
    const types = [...new Set(nodes.map((node) => node.type))];
    const key = types.map((type) => element("span", {}, element("i", { class: `cell t-${type}` }), `${type} ${nodes.filter((node) => node.type === type).length}`));
    const cells = nodes.map((node) => element("i", { class: `cell t-${node.type}`, title: `${node.name} (${node.op}): ${node.type}\n${node.reason}` }));
    return element("figure", { class: "map" }, element("figcaption", {}, "Precision of each node, in the order of the model ", ...key), element("div", {}, ...cells));
  }

  function rulesTable(groups) {
    const amounts = new Map((data.rules || []).map((rule) => [JSON.stringify(["rewrite", rule.group, rule.rule]), rule]));
    const rows = [...groups].map(([key, count]) => {
      const [kind, group, rule] = JSON.parse(key);
      const pick = element("button", { type: "button", onclick: () => { byId("group").value = key; byId("kind").value = ""; filter(); byId("search").scrollIntoView(); } }, rule);
      const { casts = "", bytes = "" } = amounts.get(key) || {};
      const numbers = [String(count), ...(amounts.size ? [casts, bytes] : [])].map((text) => element("td", { class: "n" }, text));
      return element("tr", {}, element("td", {}, pick), ...numbers, element("td", {}, group), element("td", {}, kind));
    });
    for (const rule of data.rules || []) if (!rule.rule) rows.push(element("tr", {}, element("td", {}, "beside its rules"),
      ...["", rule.casts, rule.bytes].map((text) => element("td", { class: "n" }, text)), element("td", {}, rule.group), element("td", {}, "")));
    const numbers = ["count", ...(amounts.size ? ["casts", "constants"] : [])].map((name) => element("th", { class: "n" }, name));
    const head = element("tr", {}, element("th", {}, "rule"), ...numbers, element("th", {}, "where"), element("th", {}, "kind"));
    return element("div", { class: "rules" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  function filter() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean), kind = byId("kind").value;
    const [k, g, r] = byId("group").value ? JSON.parse(byId("group").value) : [];
    shown = items.filter((item) => (!kind || item.kind === kind) && (!k || (item.kind === k && item.group === g && item.rule === r))
      && words.every((word) => item.text.includes(word)));
    byId("count").textContent = `${shown.length} of ${items.length}`;
    byId("list").replaceChildren();
    drawn = 0; current = -1;
    more();
  }

  function more() {
    byId("list").append(...shown.slice(drawn, drawn + CHUNK).map(row));
    drawn = Math.min(drawn + CHUNK, shown.length);
    byId("more").hidden = drawn >= shown.length;
    byId("more").textContent = `Show ${Math.min(CHUNK, shown.length - drawn)} more of ${shown.length - drawn}`;
  }

  function row(item) {
    const tag = element("span", { class: "tag " + item.kind + " " + item.rule.split("-").pop() }, item.kind === "refusal" ? item.rule + ", refused" : item.rule);
    const button = element("button", { class: "row", type: "button", "aria-expanded": "false" },
      element("span", { class: "mark", "aria-hidden": "true" }, "\u25b8"), element("span", { class: "place" }, item.place || "the model"), tag,
      element("span", { class: "why" }, item.reason));
    const entry = element("li", {}, button);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) entry.lastChild.remove(); else entry.append(body(item));
    });
    return entry;
  }

  function body(item) {
    const made = element("div", { class: "body" });
    if (item.detail) made.append(element("p", {}, item.detail));
    for (const [name, text] of [["before", item.before], ["after", item.after]]) {
      if (!text) continue;
      const side = element("div", { class: "side" }, element("h3", {}, item.kind === "refusal" ? "as it is" : name));
      if (item.drawn) side.append(element("div", { class: "picture", tabindex: "0" }, picture(item.drawing[name], data.around[name] || {}, `${name}: ${item.place}`)));
      const lines = text.split("\n").length, pre = element("pre", { class: item.kind === "refusal" ? "" : name }, text);
      side.append(item.drawn && lines > 4 ? element("details", {}, element("summary", {}, `${lines} lines of ONNX text`), pre) : pre);
      made.append(side);
    }
    return made;
  }

  let waiting = 0;
  byId("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 60); });
  byId("kind").addEventListener("change", filter);
  byId("group").addEventListener("change", filter);
  byId("more").addEventListener("click", more);
  byId("controls").addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); byId("search").focus(); }
    if (event.key === "Escape" && typing) document.activeElement.blur();
    if (!typing && (event.key === "j" || event.key === "k")) {
      const rows = [...document.querySelectorAll(".row")];
      const at = rows.indexOf(document.activeElement);
      current = Math.max(0, (at < 0 ? current : at) + (event.key === "j" ? 1 : -1));
      if (current >= rows.length && drawn < shown.length) { more(); return; }
      if (rows[current]) rows[current].focus();
    }
  });
  filter();
  document.body.dataset.ready = "yes";
}

/* ---- many models: a table, and the page of the one that the address names ---- */

function open_(data) {
  if (!data.models) return start(data);
  window.addEventListener("hashchange", () => location.reload());
  const at = /^#model-([0-9]+)$/.exec(location.hash), chosen = at && data.models[Number(at[1])];
  if (!chosen || !chosen.page) return overview(data);
  start(chosen.page);
  byId("sub").append(" ", element("a", { href: "#" }, "all models"));
}

function overview(data) {
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("sub").textContent = data.sub;
  const rows = data.models.map(({ row, messages, page }, index) => {
    const name = page ? element("a", { href: `#model-${index}` }, row[0]) : row[0];
    const notes = messages.map((text) => element("p", { class: "note" }, text));
    return element("tr", {}, element("td", {}, name, ...notes), ...row.slice(1).map((text) => element("td", {}, text)));
  });
  const head = element("tr", {}, ...data.columns.map((name) => element("th", {}, name)));
  byId("summary").append(element("div", { class: "rules" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
  byId("controls").parentElement.hidden = true;
  document.body.dataset.ready = "yes";
}

read().then(open_, (error) => { byId("title").textContent = "This report cannot be shown: " + error.message; });
