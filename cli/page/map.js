/* The map of the whole graph: from left to right by depth, changes marked, modules below; it zooms, pans and tells names. */
"use strict";

const MAP_WIDE = 1100, MAP_TALL = 170, ROWS = 3, MOST_BARS = 40, MOST_CELLS = 240, NEAR = 9;

function graphMap(map, items, open, nodes) {
  const count = map.depths.length, deepest = Math.max(...map.depths, 0) + 1, lanes = [];
  const lane = map.depths.map((depth) => (lanes[depth] = (lanes[depth] || 0) + 1) - 1);
  const widest = Math.max(6, ...lanes.filter(Boolean)), step = MAP_WIDE / deepest;
  const at = (index) => [(map.depths[index] + 0.5) * step, MAP_TALL / 2 + ((lane[index] + 0.5 - lanes[map.depths[index]] / 2) * (MAP_TALL - 16)) / widest];
  const svg = draw("svg", { viewBox: `0 0 ${MAP_WIDE} ${MAP_TALL}`, preserveAspectRatio: "none", class: "overview", role: "img", "aria-label": "Map of the graph" });
  const places = map.depths.map((_, index) => at(index).map((number) => Number(number.toFixed(2))));
  const dots = (chosen) => chosen.map((index) => `M${places[index]}h0`).join("");
  const isOf = (index, test) => test(map.names[map.operators[index]]);
  let lines = "";
  for (let i = 0; i < map.edges.length; i += 2) lines += `M${places[map.edges[i]]}L${places[map.edges[i + 1]]}`;
  if (lines) svg.append(draw("path", { d: lines, class: "thin" }));
  const all = places.map((_, index) => index), casts = all.filter((index) => isOf(index, isCast));
  svg.append(draw("path", { d: dots(all.filter((index) => !isOf(index, isCast))), class: "dots" }), draw("path", { d: dots(casts), class: "dots cast" }));
  const marked = new Map();
  items.forEach((item, index) => (item.at || []).forEach((node) => { if (!marked.has(node)) marked.set(node, index); }));
  for (const [node, index] of marked) {
    const mark = draw("path", { d: dots([node]), class: `at ${items[index].kind}` });
    mark.addEventListener("click", () => open(index));
    svg.append(mark);
  }

  const legend = element("p", { class: "legend" });
  const kinds = [...new Set([...marked.values()].map((index) => items[index].kind))];
  for (const [kind, text] of [["node", `${count - casts.length} nodes`], ["cast", `${casts.length} casts`], ...kinds.map((kind) => [kind, KINDS[kind] || kind])])
    legend.append(element("span", {}, element("i", { class: `swatch ${kind}` }), text));

  const types = [...new Set((nodes || []).map((node) => node.type))];
  for (const type of types) legend.append(element("span", {}, element("i", { class: `swatch t-${type}` }), `${nodes.filter((node) => node.type === type).length} compute in ${type}`));
  if ((nodes || []).some((node) => node.magnitude !== undefined)) legend.append(element("span", {}, element("i", { class: "swatch refusal" }), "largest magnitude"));
  if ((nodes || []).some((node) => node.magnitude > 65504)) legend.append(element("span", {}, element("i", { class: "swatch diagnostic" }), "more than float16 holds"));
  if ((nodes || []).some((node) => node.error !== undefined)) legend.append(element("span", {}, element("i", { class: "swatch refusal" }), "largest error, from 1e-8 to 1; red above 0.01"));
  const tip = element("output", { class: "tip", hidden: "" }), bars = element("div", { class: "bars" });
  const stack = element("div", { class: "stack" }, svg, tip);
  const below = nodes && nodes.length ? strips(map, nodes) : [];
  const view = { from: 0, to: 1 };  // the part of the width that is shown
  const modules = moduleLevels(map);

  function show(from, to) {
    const width = Math.min(1, Math.max(to - from, Math.min(1, 8 / deepest)));
    view.from = Math.min(Math.max(0, from), 1 - width);
    view.to = view.from + width;
    svg.setAttribute("viewBox", `${view.from * MAP_WIDE} 0 ${width * MAP_WIDE} ${MAP_TALL}`);
    for (const strip of below) strip.setAttribute("viewBox", `${view.from * MAP_WIDE} 0 ${width * MAP_WIDE} ${STRIP}`);
    bars.style.height = `${modules.length ? 19 * ROWS : 0}px`;
    bars.replaceChildren(...moduleBars(modules, deepest, view, (first, last) => show(first - 0.005, last + 0.005)));
    whole.disabled = width === 1;
    svg.style.setProperty("--mark", `${Math.max(3, Math.min(9, 800 / (deepest * width))).toFixed(1)}px`);
  }
  const zoom = (factor, middle = (view.from + view.to) / 2) => show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  const button = (text, label, work) => element("button", { type: "button", "aria-label": label, title: label, onclick: work }, text);
  const whole = button("Whole", "Show the whole graph", () => show(0, 1));
  const buttons = element("span", { class: "zoom" }, button("+", "Zoom in", () => zoom(0.5)), button("\u2212", "Zoom out", () => zoom(2)), whole);

  const across = (event) => { const box = svg.getBoundingClientRect(); return view.from + ((event.clientX - box.left) / box.width) * (view.to - view.from); };
  svg.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, across(event)); } }, { passive: false });
  svg.addEventListener("dblclick", (event) => zoom(0.4, across(event)));
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from: view.from }; });
  addEventListener("pointerup", () => { held = null; });
  const columns = [];
  map.depths.forEach((depth, index) => (columns[depth] = columns[depth] || []).push(index));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), width = view.to - view.from;
    if (held) { const from = held.from - ((event.clientX - held.x) / box.width) * width; if (Math.abs(event.clientX - held.x) > 3) show(from, from + width); return; }
    const index = nearest(event, box, width);
    tip.hidden = index === null;
    if (index === null) return;
    const change = marked.has(index) ? items[marked.get(index)] : null;
    tip.textContent = [`${map.labels[index]} (${map.names[map.operators[index]]})`, map.paths[map.modules[index]] || "", change ? `${change.rule}: a click shows it` : ""].filter(Boolean).join("\n");
    tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - 160)}px`;
    tip.style.top = `${event.clientY - box.top + 14}px`;
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });

  function nearest(event, box, width) {
    const depth = Math.floor(across(event) * deepest), reach = Math.ceil((NEAR * deepest * width) / box.width);
    let best = null, least = NEAR;
    for (let d = Math.max(0, depth - reach); d <= Math.min(deepest - 1, depth + reach); d++) for (const index of columns[d] || []) {
      const [x, y] = places[index], far = Math.hypot(((x / MAP_WIDE - view.from) / width) * box.width + box.left - event.clientX, (y / MAP_TALL) * box.height + box.top - event.clientY);
      if (far < least) { least = far; best = index; }
    }
    return best;
  }

  show(0, 1);
  const text = `The graph by depth: ${count} nodes${items.length ? `, changes at ${marked.size} of them` : ""}`;
  const hint = element("p", { class: "hint" }, "Drag to move. Double-click, or hold Ctrl and turn the wheel, to zoom. Click a change to open it, or a module to zoom to it.");
  return element("figure", { class: "map" }, element("figcaption", {}, text, buttons), legend, stack, ...below, bars, hint);
}

const KINDS = { rewrite: "rewrite", refusal: "skipped", diagnostic: "finding", change: "difference" };
const kindOf = (kind, rule) => rule === "convert-node" && kind === "refusal" ? "kept" : KINDS[kind];

/* Each level of modules: by path the first and the last depth, and the number of nodes. */
function moduleLevels(map) {
  const levels = [];
  map.modules.forEach((number, index) => {
    const parts = map.paths[number] ? map.paths[number].split("/") : [];
    for (let level = 0; level < parts.length; level++) {
      const path = parts.slice(0, level + 1).join("/"), depth = map.depths[index], groups = (levels[level] = levels[level] || new Map());
      const group = groups.get(path) || { path, first: depth, last: depth, nodes: 0 };
      group.first = Math.min(group.first, depth); group.last = Math.max(group.last, depth); group.nodes++;
      groups.set(path, group);
    }
  });
  return levels.map((groups) => [...groups.values()].sort((a, b) => a.first - b.first || b.last - a.last));
}

/* The bars of the deepest level whose modules in view have room for their names, in rows where they overlap; else of the first. */
function moduleBars(levels, deepest, view, choose) {
  const seen = (groups) => groups.filter((group) => (group.last + 1) / deepest > view.from && group.first / deepest < view.to);
  const inView = levels.map(seen).filter((groups) => groups.length > 1 && groups.length <= MOST_CELLS), made = [], ends = [];
  const named = inView.filter((groups) => groups.length <= MOST_BARS);
  for (const group of named.pop() || inView[0] || seen(levels[0] || [])) {
    const first = group.first / deepest, last = (group.last + 1) / deepest, width = view.to - view.from;
    const left = Math.max(0, (first - view.from) / width), right = Math.min(1, (last - view.from) / width);
    let row = ends.findIndex((end) => end <= left + 1e-9);
    if (row < 0) row = ends.length;
    if (row >= ROWS) continue;
    ends[row] = right;
    const parts = group.path.split("/"), name = parts.slice(/^\d+$/.test(parts[parts.length - 1]) ? -2 : -1).join("."), title = `${group.path}: ${group.nodes} nodes`;
    made.push(element("button", { type: "button", class: "bar", title, style: `left: ${(left * 100).toFixed(2)}%; width: ${((right - left) * 100).toFixed(2)}%; top: ${row * 19}px`, onclick: () => choose(first, last) }, name));
  }
  return made;
}

/* Along the graph, by depth: the types that nodes compute in, how near values come to the end of float16, and their errors. */
const STRIP = 46, LIMIT = Math.log2(65504), WRONG = 0.01, LEAST_ERROR = -8;

function strips(map, nodes) {
  const deepest = Math.max(...map.depths, 0) + 1, step = MAP_WIDE / deepest, byName = new Map(nodes.map((node) => [node.name, node])), columns = [];
  const strip = (label) => draw("svg", { viewBox: `0 0 ${MAP_WIDE} ${STRIP}`, preserveAspectRatio: "none", class: "strip", role: "img", "aria-label": label });
  const has = (name) => nodes.some((node) => node[name] !== undefined), made = [strip("Precision and magnitude"), ...(has("error") ? [strip("Error")] : [])];
  map.labels.forEach((label, index) => {
    const node = byName.get(label);
    if (!node) return;
    const here = (columns[map.depths[index]] = columns[map.depths[index]] || { types: {} });
    here.types[node.type] = (here.types[node.type] || 0) + 1;
    for (const name of ["magnitude", "error"]) if (node[name] !== undefined && !(here[name] && here[name][name] >= node[name])) here[name] = node;
  });
  columns.forEach((here, depth) => {
    if (!here) return;
    const total = Object.values(here.types).reduce((sum, number) => sum + number), x = (depth * step).toFixed(2), width = Math.max(step, 0.4).toFixed(2);
    const bar = (svg, height, kind, text) => {
      const rect = draw("rect", { x, y: (STRIP - height).toFixed(2), width, height: height.toFixed(2), class: kind });
      rect.append(draw("title", {}, text));
      svg.append(rect);
    };
    let y = 0;
    for (const [type, number] of Object.entries(here.types)) {
      const rect = draw("rect", { x, y: y.toFixed(2), width, height: ((12 * number) / total).toFixed(2), class: `t-${type}` });
      rect.append(draw("title", {}, `${number} of ${total} nodes at this depth compute in ${type}`));
      made[0].append(rect);
      y += (12 * number) / total;
    }
    if (here.magnitude) {
      const { magnitude, name, op } = here.magnitude, over = magnitude > 65504, power = magnitude > 0 ? Math.log2(magnitude) : 0;
      bar(made[0], over ? 32 : Math.max(1, Math.min(28, (28 * Math.max(power, 0)) / LIMIT)), over ? "over" : "fits", `${name} (${op}): at most ${magnitude}${over ? ", more than float16 holds" : ""}`);
    }
    if (here.error && here.error.error > 0) {
      const { error, name, op } = here.error, over = error > WRONG;
      bar(made[1], Math.max(1, Math.min(STRIP, (STRIP * (Math.log10(error) - LEAST_ERROR)) / -LEAST_ERROR)), over ? "over" : "fits", `${name} (${op}): error ${error.toPrecision(3)}, relative to its largest element`);
    }
  });
  return made;
}
