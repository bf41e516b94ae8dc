// Names come from models, which nobody has to trust: they reach the page as text nodes and attribute values, never as HTML.
"use strict";

const CHUNK = 100, ALIKE = 3;
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
  nodes.forEach((node, index) => node.outs.forEach((name, i) => maker.set(name, [index, node.outTypes[i] || "", i])));
  const count = nodes.length, used = new Set();
  for (let index = 0; index < count; index++) {
    nodes[index].ins.forEach((name, i) => {
      if (!name) return;
      if (!maker.has(name)) {
        const known = around[name];
        nodes.push({ op: known && known[0] ? known[0] : "", outs: [name], ins: [], outTypes: [], inTypes: [], note: name, ghost: true });
        maker.set(name, [nodes.length - 1, nodes[index].inTypes[i], 0]);
      }
      const [from, type, port] = maker.get(name);
      if (from === index) return;
      used.add(name);
      edges.push({ from, port, to: index, into: i, name, type: nodes[index].inTypes[i] || type });
    });
  }
  for (let index = 0; index < count; index++) {
    nodes[index].outs.forEach((name, i) => {
      const known = around[name], consumers = known ? known[1] : [];
      if (used.has(name)) return;
      for (const op of consumers.length ? consumers : [""]) {
        nodes.push({ op, outs: [], ins: [], outTypes: [], inTypes: [], note: name, ghost: true });
        edges.push({ from: index, port: i, to: nodes.length - 1, into: 0, name, type: nodes[index].outTypes[i] || "" });
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
      const before = edges.filter((edge) => edge.to === index && place[edge.from] !== undefined).map((edge) => place[edge.from] + edge.port / 100);
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

const WIDE = 6.7, SMALL = 5.9, TYPE = 6.4, HEIGHT = 38, GAP = 26, PORT = 19;

/* Each output has a place of its own on the right of a box, each input on the left, so that no two edges share a line. */
function picture(drawing, around, label) {
  const graph = graphOf(drawing, around), columns = layers(graph), box = [];
  const ports = graph.nodes.map((node) => Math.max(node.ghost ? 1 : node.outs.length, node.ins.length, 1));
  const heights = ports.map((count) => Math.max(HEIGHT, count * PORT + 4));
  const tall = (column) => column.reduce((sum, index) => sum + heights[index] + GAP, 0);
  let x = 6;
  const height = Math.max(...columns.map(tall)) + 8;
  for (const column of columns) {
    let widest = 0, label = 0, y = (height - tall(column) + GAP) / 2;
    for (const index of column) {
      const node = graph.nodes[index], title = node.op || "";
      const width = Math.max(title.length * WIDE, clip(node.note, 24).length * SMALL) + 18;
      box[index] = { x, y, width: node.ghost ? width : Math.max(width, 40), height: heights[index], lead: 0 };
      widest = Math.max(widest, box[index].width);
      y += heights[index] + GAP;
    }
    for (const edge of graph.edges) if (column.includes(edge.from)) label = Math.max(label, clip(edge.type, 26).length * TYPE);
    column.forEach((index) => (box[index].lead = x + widest + (label ? label + 10 : 0)));
    x += widest + (label ? label + 44 : 34);
  }
  const port = (at, index, count) => at.y + (at.height * (index + 1)) / (count + 1);
  const svg = draw("svg", { width: x, height, viewBox: `0 0 ${x} ${height}`, role: "img", "aria-label": label });
  const labelled = new Set();
  for (const edge of graph.edges) {
    const { from, to, type } = edge, a = box[from], b = box[to], source = graph.nodes[from], target = graph.nodes[to];
    const x1 = a.x + a.width, y1 = port(a, edge.port, Math.max(source.outs.length, 1));
    const y2 = port(b, edge.into, Math.max(target.ins.length, 1));
    const lead = Math.max(x1, Math.min(a.lead, b.x - 10)), bend = Math.max(10, (b.x - lead) / 2);
    const path = draw("path", { d: `M${x1},${y1}H${lead}C${lead + bend},${y1} ${b.x - bend},${y2} ${b.x},${y2}` });
    path.append(draw("title", {}, `${edge.name}: ${type}`));
    svg.append(path);
    if (!labelled.has(`${from} ${edge.port} ${type}`) && type) {
      labelled.add(`${from} ${edge.port} ${type}`);
      svg.append(draw("text", { x: x1 + 6, y: y1 - 5, class: "type" }, clip(type, 26)));
    }
  }
  graph.nodes.forEach((node, index) => {
    const { x, y, width, height } = box[index], kind = node.ghost ? "ghost" : node.op === "constant" ? "constant" : isCast(node.op) ? "cast" : "";
    const group = draw("g", {}), middle = x + width / 2, alone = !node.note || !node.op, down = y + (height - HEIGHT) / 2;
    group.append(draw("title", {}, [node.op, node.note, node.outs.join(", ")].filter(Boolean).join("\n")));
    group.append(draw("rect", { x, y, width, height, rx: node.ghost ? 19 : 6, class: "box " + kind }));
    if (node.op) group.append(draw("text", { x: middle, y: down + (alone ? 23 : 16), "text-anchor": "middle", class: node.ghost ? "ghosted" : "" }, node.op));
    if (node.note) group.append(draw("text", { x: middle, y: down + (alone ? 23 : 30), "text-anchor": "middle", class: "small" }, clip(node.note, 24)));
    svg.append(group);
  });
  return svg;
}

/* ---- the page ---- */

function start(data, prefix = "") {
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("sub").textContent = data.sub;
  for (const [name, value] of data.figures) byId("summary").append(element("div", { class: "figure" }, element("span", {}, name), element("b", {}, value)));
  const items = data.items.map((item, index) => ({ ...item, index, text: [item.place, item.rule, item.group, item.reason, item.before, item.after].join("\n").toLowerCase() }));
  const parts = (text) => text.split(" + ");
  const isOf = (item, kind, group, rule) => item.kind === kind && parts(item.group).includes(group) && parts(item.rule).includes(rule);
  const groups = new Map();
  for (const { group, rule, count } of data.rules || []) if (rule) groups.set(JSON.stringify(["rewrite", group, rule]), Number(count));
  for (const item of items) {
    const key = JSON.stringify([item.kind, item.group, item.rule]);
    if (!(item.kind === "rewrite" && data.rules)) groups.set(key, (groups.get(key) || 0) + 1);
  }
  const kinds = [...new Set(items.map((item) => item.kind))];
  byId("kind").append(element("option", { value: "" }, "everything"), ...kinds.map((kind) => element("option", { value: kind }, KINDS[kind])));
  byId("group").append(element("option", { value: "" }, "all rules"), ...[...groups].map(([key, count]) => {
    const [kind, group, rule] = JSON.parse(key);
    return element("option", { value: key }, `${rule}${kind === "rewrite" || kind === "change" ? "" : " (" + kindOf(kind, rule) + ")"} ${count}`);
  }));
  if (kinds.length < 2) byId("kind").hidden = true;
  if (groups.size) byId("summary").append(rulesTable(groups));
  if (data.overview && data.overview.depths.length) byId("summary").append(graphMap(data.overview, items, show, data.map));
  if (data.error) byId("summary").append(errorTable(data.error));
  if (data.plan) byId("summary").append(element("figure", { class: "map" }, element("pre", {}, data.plan.map((line) => line.slice(2)).join("\n"))));
  let entries = [], shown = 0, drawn = 0, current = -1, open = false;

  function errorTable({ title, table, notes }) {
    const cells = (kind, row) => element("tr", {}, ...row.map((text, index) => element(kind, index ? { class: "n" } : {}, text)));
    const rows = element("table", {}, element("thead", {}, cells("th", table[0])), element("tbody", {}, ...table.slice(1).map((row) => cells("td", row))));
    return element("figure", { class: "map rules" }, element("figcaption", {}, title[0].toUpperCase() + title.slice(1)), ...(table.length > 1 ? [rows] : []), ...notes.map((text) => element("p", {}, text)));
  }

  function rulesTable(groups) {
    const amounts = new Map((data.rules || []).map((rule) => [JSON.stringify(["rewrite", rule.group, rule.rule]), rule]));
    const rows = [...groups].map(([key, count]) => {
      const [kind, group, rule] = JSON.parse(key);
      const pick = element("button", { type: "button", onclick: () => { byId("group").value = key; byId("kind").value = ""; filter(); byId("search").scrollIntoView(); } }, rule);
      const { casts = "", bytes = "" } = amounts.get(key) || {};
      const numbers = [String(count), ...(amounts.size ? [casts, bytes] : [])].map((text) => element("td", { class: "n" }, text));
      return element("tr", {}, element("td", {}, pick), ...numbers, element("td", {}, group), element("td", {}, kindOf(kind, rule)));
    });
    for (const rule of data.rules || []) if (!rule.rule) rows.push(element("tr", {}, element("td", {}, "other changes"),
      ...["", rule.casts, rule.bytes].map((text) => element("td", { class: "n" }, text)), element("td", {}, rule.group), element("td", {}, "")));
    const numbers = ["count", ...(amounts.size ? ["casts", "constants"] : [])].map((name) => element("th", { class: "n" }, name));
    const head = element("tr", {}, element("th", {}, "rule"), ...numbers, element("th", {}, "where"), element("th", {}, "kind"));
    return element("div", { class: "rules" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  /* The rows as the text has them: by rule, of those that differ in names and shapes alone the first, then their number. */
  function grouped(chosen, searching) {
    if (searching) return chosen.map((item) => ({ item }));
    const sections = new Map(), found = [];
    for (const item of chosen) {
      const key = item.kind === "change" ? "" : `${item.group}, ${item.rule}${item.kind === "rewrite" ? "" : ` (${kindOf(item.kind, item.rule)})`}`;
      if (!sections.has(key)) sections.set(key, new Map());
      const forms = sections.get(key);
      if (!forms.has(item.form)) forms.set(item.form, []);
      forms.get(item.form).push(item);
    }
    for (const [key, forms] of sections) {
      const count = [...forms.values()].reduce((sum, alike) => sum + alike.length, 0);
      if (key) found.push({ heading: `${key} (${count})` });
      const rows = [];
      for (const alike of forms.values()) {
        const most = alike.length > ALIKE + 1 ? ALIKE : alike.length;
        alike.slice(0, most).forEach((item, i) => rows.push({ item, rest: i === most - 1 ? alike.slice(most) : [] }));
      }
      rows.sort((a, b) => a.item.index - b.item.index);
      found.push(...rows);
    }
    return found;
  }

  function filter() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean), kind = byId("kind").value;
    const [k, g, r] = byId("group").value ? JSON.parse(byId("group").value) : [];
    const chosen = items.filter((item) => (!kind || item.kind === kind) && (!k || isOf(item, k, g, r)) && words.every((word) => item.text.includes(word)));
    shown = chosen.length;
    entries = grouped(chosen, words.length > 0);
    byId("count").textContent = `${shown} of ${items.length}`;
    byId("list").replaceChildren();
    drawn = 0; current = -1;
    more();
  }

  function more() {
    byId("list").append(...entries.slice(drawn, drawn + CHUNK).flatMap(lines));
    drawn = Math.min(drawn + CHUNK, entries.length);
    byId("more").hidden = drawn >= entries.length;
    byId("more").textContent = `Show ${Math.min(CHUNK, entries.length - drawn)} more of ${entries.length - drawn}`;
  }

  function lines(entry) {
    if (entry.heading) return [element("li", { class: "heading" }, element("h2", {}, entry.heading))];
    const made = [row(entry.item)];
    if (entry.rest && entry.rest.length) {
      const button = element("button", { type: "button", class: "alike" }, `and ${entry.rest.length} more in the same way`);
      const folded = element("li", { class: "folded" }, button);
      button.addEventListener("click", () => folded.replaceWith(...entry.rest.map(row)));
      folded.unfold = () => button.click();
      folded.holds = new Set(entry.rest.map((item) => item.index));
      made.push(folded);
    }
    return made;
  }

  function row(item) {
    const tag = element("span", { class: "tag " + item.kind + " " + item.rule.split("-").pop() }, item.kind === "refusal" ? item.rule + ", " + kindOf(item.kind, item.rule) : item.rule);
    const button = element("button", { class: "row", type: "button", "aria-expanded": "false" },
      element("span", { class: "mark", "aria-hidden": "true" }, "\u25b8"), element("span", { class: "place" }, item.place || "the model"), tag,
      element("span", { class: "why" }, item.reason));
    const name = `${prefix}r${item.index}`;
    const link = element("a", { class: "link", href: `#${name}`, title: "Link to this change", "aria-label": "Link to this change" }, "#");
    const entry = element("li", { id: name }, button, link);
    entry.toggle = (wanted) => {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      if (isOpen === wanted) return;
      button.setAttribute("aria-expanded", String(wanted));
      if (wanted) entry.append(body(item)); else entry.lastChild.remove();
    };
    button.addEventListener("click", () => entry.toggle(button.getAttribute("aria-expanded") !== "true"));
    if (open) entry.toggle(true);
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

  const everyRow = () => [...byId("list").children].filter((entry) => entry.toggle);

  function all(wanted) {
    open = wanted;
    byId("all").textContent = wanted ? "Close all" : "Open all";
    byId("all").setAttribute("aria-pressed", String(wanted));
    if (wanted) [...byId("list").children].forEach((entry) => entry.unfold && entry.unfold());
    everyRow().forEach((entry) => entry.toggle(wanted));
  }

  /* Open the row of an item, wherever it is: filters are cleared, and what is folded is shown. */
  function show(index) {
    const name = `${prefix}r${index}`;
    if (!byId(name)) {
      if (shown < items.length) { byId("search").value = byId("kind").value = byId("group").value = ""; filter(); }
      const held = (entry) => entry.item && (entry.item.index === index || entry.rest.some((item) => item.index === index));
      const at = entries.findIndex(held);
      while (at >= drawn && drawn < entries.length) more();
      [...byId("list").children].forEach((entry) => { if (entry.holds && entry.holds.has(index)) entry.unfold(); });
    }
    const entry = byId(name);
    if (!entry) return;
    entry.toggle(true);
    entry.scrollIntoView({ block: "start" });
    entry.firstChild.focus({ preventScroll: true });
  }

  function followLink() {
    const found = /r([0-9]+)$/.exec(location.hash);
    if (found && location.hash === `#${prefix}r${found[1]}`) show(Number(found[1]));
  }

  let waiting = 0;
  byId("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 60); });
  byId("kind").addEventListener("change", filter);
  byId("group").addEventListener("change", filter);
  byId("more").addEventListener("click", more);
  byId("all").addEventListener("click", () => all(!open));
  byId("controls").addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  window.addEventListener("beforeprint", () => { while (drawn < entries.length) more(); all(true); document.querySelectorAll("details").forEach((each) => (each.open = true)); });
  window.addEventListener("hashchange", followLink);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); byId("search").focus(); }
    if (event.key === "Escape" && typing) document.activeElement.blur();
    if (!typing && (event.key === "j" || event.key === "k")) {
      const rows = [...document.querySelectorAll(".row")];
      const at = rows.indexOf(document.activeElement);
      current = Math.max(0, (at < 0 ? current : at) + (event.key === "j" ? 1 : -1));
      if (current >= rows.length && drawn < entries.length) { more(); return; }
      if (rows[current]) rows[current].focus();
    }
  });
  filter();
  followLink();
  document.body.dataset.ready = "yes";
}

/* ---- light, dark, or the theme of the system ---- */

function themes() {
  const names = ["system", "light", "dark"], root = document.documentElement;
  let at = 0;
  byId("theme").addEventListener("click", () => {
    at = (at + 1) % names.length;
    if (at) root.dataset.theme = names[at]; else delete root.dataset.theme;
    byId("theme").textContent = `Theme: ${names[at]}`;
  });
}

/* ---- many models: a table, and the page of the one that the address names ---- */

function open_(data) {
  if (!data.models) return start(data);
  const model = () => (/^#model-([0-9]+)(-r[0-9]+)?$/.exec(location.hash) || [])[1], at = model(), chosen = at !== undefined && data.models[Number(at)];
  window.addEventListener("hashchange", () => { if (model() !== at) location.reload(); });
  if (!chosen || !chosen.page) return overview(data);
  start(chosen.page, `model-${at}-`);
  byId("sub").append(" ", element("a", { href: "#" }, "all models"));
}

function overview(data) {
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("sub").textContent = data.sub;
  const rows = data.models.flatMap(({ row, messages, page }, index) => {
    const name = page ? element("a", { href: `#model-${index}` }, row[0]) : row[0];
    const notes = messages.map((text) => element("p", { class: "note" }, text)), has = notes.length ? "noted" : "";
    const cells = [name, ...row.slice(1)].map((text) => element("td", {}, text));
    const below = element("tr", {}, element("td", { colspan: row.length, class: "told" }, ...notes));
    return [element("tr", { class: has }, ...cells), ...(has ? [below] : [])];
  });
  const head = element("tr", {}, ...data.columns.map((name) => element("th", {}, name)));
  byId("summary").append(element("div", { class: "rules" }, element("table", { class: "many" }, element("thead", {}, head), element("tbody", {}, ...rows))));
  byId("controls").parentElement.hidden = true;
  document.body.dataset.ready = "yes";
}

themes();
read().then(open_, (error) => { byId("title").textContent = "This report cannot be shown: " + error.message; });
