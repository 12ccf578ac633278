// SPDX-License-Identifier: Apache-2.0
// The list, the tools, the keyboard. Names reach the page through textContent only.
"use strict";

const $ = (id) => document.getElementById(id);
const make = (tag, text, kind) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
const MODES = ["colour", "confidence", "picture"];

let world = null; // stays null where there is no WebGL 2

const panel = {
  rows: [],
  size: () => Number($("size").value),
  mode: () => Math.max($("colour").selectedIndex, 0),
  /** Pixels that the list takes at the left and the tools at the bottom. */
  free() {
    const list = $("panel"), wide = innerWidth > 640 && !list.hidden;
    return { left: wide ? list.offsetWidth + 8 : 0, bottom: $("tools").offsetHeight + 8 };
  },
  opacity: () => Number($("opacity").value) / 100,

  build() {
    $("title").textContent = head.title;
    const count = clouds.reduce((n, c) => n + c.count, 0), lost = head.pictures.length - placed.length;
    const parts = [`${placed.length} of ${head.pictures.length} pictures placed`, `${count.toLocaleString("en")} points`];
    $("summary").textContent = `${parts.join(", ")}. ${head.scale}`;
    for (const c of components.length > 1 ? components : []) {
      const n = placed.filter((i) => head.pictures[i].component === c).length;
      const tab = make("button", `component ${c} (${n})`);
      tab.setAttribute("role", "tab");
      tab.onclick = () => this.component(c);
      tab.dataset.component = c;
      $("tabs").append(tab);
    }
    head.pictures.forEach((p, i) => this.row(p, i));
    clouds.forEach((c) => $("cloud").append(new Option(`${c.name} (${c.count.toLocaleString("en")})`)));
    $("cloud-label").hidden = clouds.length < 2;
    this.cloud(0);
    this.component(state.component);
  },

  row(p, i) {
    const row = make("li", undefined, p.pose ? "" : "lost"), button = make("button"), words = make("span", undefined, "words");
    if (p.pose) {
      const box = make("input");
      box.type = "checkbox";
      box.checked = true;
      box.setAttribute("aria-label", `Show the points of ${p.name}`);
      box.onchange = () => {
        state.visible[i] = box.checked;
        this.redraw();
      };
      row.append(box);
    }
    if (p.thumb) {
      const picture = make("img");
      picture.src = p.thumb;
      picture.alt = "";
      picture.loading = "lazy";
      button.append(picture);
    }
    words.append(make("span", p.name, "name"));
    if (!p.pose || p.reason) words.append(make("span", [p.status, p.reason].filter(Boolean).join(": "), "reason"));
    button.append(words);
    button.disabled = !p.pose;
    button.onclick = () => this.go(i);
    row.append(button);
    $("list").append(row);
    this.rows.push(row);
  },

  /** Stand in the camera of picture i, in its component. */
  go(i) {
    const p = head.pictures[i];
    if (!p.pose) return;
    if (p.component !== state.component) this.component(p.component);
    if (world) world.enter(i);
    keepPlace();
  },

  step(by) {
    const own = placed.filter((i) => head.pictures[i].component === state.component);
    if (!own.length) return;
    const at = own.indexOf(state.current);
    this.go(own[at < 0 ? (by > 0 ? 0 : own.length - 1) : (at + by + own.length) % own.length]);
  },

  /** The marks in the list and the tools that belong to a camera. */
  follow() {
    this.rows.forEach((row, i) => row.setAttribute("aria-current", String(i === state.current)));
    if (state.current >= 0) this.rows[state.current].scrollIntoView({ block: "nearest" });
    $("opacity-label").hidden = state.current < 0;
    const others = head.matches.filter((m) => m.a === state.current || m.b === state.current).map((m) => (m.a === state.current ? m.b : m.a));
    $("matches-label").hidden = !others.length;
    $("matches").replaceChildren(new Option("none", -1), ...others.map((o) => new Option(head.pictures[o].name, o)));
    state.other = -1;
    if (world) world.drawMatches();
  },

  component(c) {
    state.component = c;
    for (const tab of $("tabs").children) tab.setAttribute("aria-selected", String(Number(tab.dataset.component) === c));
    this.rows.forEach((row, i) => this.hideRow(row, i));
    if (world) {
      world.fit();
      this.redraw();
    }
  },

  hideRow(row, i) {
    const p = head.pictures[i], wanted = $("filter").value.toLowerCase();
    row.hidden = row.style.display = (p.pose && p.component !== state.component) || !p.name.toLowerCase().includes(wanted) ? "none" : "";
  },

  cloud(k) {
    state.cloud = k;
    const c = clouds[k];
    $("colour").replaceChildren(...MODES.map((m) => new Option(m === "confidence" && c ? c.quantity : m)));
    $("size").value = c && c.count > 50000 ? 2 : 4;
    this.confidence();
  },

  confidence() {
    state.hidden = Number($("confidence").value) / 100;
    const c = clouds[state.cloud], k = Math.round(state.hidden * 100);
    $("confidence-text").textContent = c && k ? `${k} %, ${c.quantity} under ${Number(c.quantiles[k].toPrecision(3))}` : "none";
    this.redraw();
  },

  redraw() {
    if (!world) return;
    world.updateMask();
    world.drawGrid();
    world.drawMatches();
  },

  toggle(name) {
    state[name] = !state[name];
    const button = { grid: "grid", measuring: "measure" }[name];
    $(button).setAttribute("aria-pressed", String(state[name]));
    if (name === "grid") $("note").textContent = state.grid && world ? `Grid: ${Number(gridStep(boundsOf().size).toPrecision(3))} ${head.unit} a square. ${head.scale}` : "";
    if (name === "measuring") measure.start();
    this.redraw();
  },

  theme(light) {
    document.documentElement.classList.toggle("light", light);
    $("theme").textContent = light ? "Dark" : "Light";
    if (world) world.draw();
  },

  menu(open) {
    $("panel").hidden = !open;
    $("menu").setAttribute("aria-expanded", String(open));
    $("tools").classList.toggle("wide", !open);
    if (world) world.resize();
  },
};

/** The distance of two clicked points. */
const measure = {
  points: [],
  start() {
    this.points = [];
    if (world) world.setLines(world.rule, []);
    $("note").textContent = state.measuring ? "Click two points." : "";
  },
  add(point) {
    if (!point) return;
    this.points = this.points.length === 1 ? [this.points[0], point] : [point];
    if (this.points.length < 2) {
      $("note").textContent = "Click the second point.";
      return;
    }
    const [a, b] = this.points, length = Math.hypot(...a.map((v, k) => v - b[k]));
    world.setLines(world.rule, [...a, ...b]);
    $("note").textContent = `${length.toPrecision(4)} ${head.unit}. ${head.scale}`;
    world.draw();
  },
};

/** The address remembers the camera we stand in, or the free view. */
function keepPlace() {
  const p = world && [...world.camera.position, ...world.controls.target].map((v) => Number(v.toPrecision(6)));
  const hash = state.current >= 0 ? `cam=${encodeURIComponent(head.pictures[state.current].name)}` : p ? `view=${p.join(",")}` : "";
  try {
    history.replaceState(null, "", `#${hash}`);
  } catch {
    // a page inside a notebook has no address of its own
  }
}

function goToPlace() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const i = head.pictures.findIndex((p) => p.pose && p.name === hash.get("cam"));
  const numbers = (hash.get("view") || "").split(",").map(Number);
  if (i >= 0) panel.go(i);
  else if (world && numbers.length === 6 && numbers.every(Number.isFinite)) {
    world.leave();
    world.moveTo(new THREE.Vector3(...numbers.slice(0, 3)), new THREE.Vector3(...numbers.slice(3)));
  }
}

function savePicture() {
  if (!world) return;
  world.render();
  world.renderer.domElement.toBlob((blob) => {
    const link = make("a");
    link.href = URL.createObjectURL(blob);
    link.download = "scene.png";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

function listen() {
  const keys = {
    f: () => world && world.fit(), g: () => panel.toggle("grid"), m: () => panel.toggle("measuring"), s: savePicture,
    d: () => panel.theme(!document.documentElement.classList.contains("light")),
    "[": () => panel.step(-1), "]": () => panel.step(1), Escape: () => world && world.leave(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action) action();
  });
  $("fit").onclick = keys.f;
  $("grid").onclick = keys.g;
  $("measure").onclick = keys.m;
  $("shot").onclick = keys.s;
  $("theme").onclick = keys.d;
  $("menu").onclick = () => panel.menu($("panel").hidden);
  $("filter").oninput = () => panel.rows.forEach((row, i) => panel.hideRow(row, i));
  $("cloud").onchange = () => panel.cloud($("cloud").selectedIndex);
  $("confidence").oninput = () => panel.confidence();
  $("colour").onchange = $("size").oninput = () => panel.redraw();
  $("cameras").onchange = () => {
    state.cameras = $("cameras").checked;
    panel.redraw();
  };
  $("opacity").oninput = () => {
    world.frusta.forEach((f) => world.paint(f));
    world.draw();
  };
  $("matches").onchange = () => {
    state.other = Number($("matches").value);
    world.updateMask();
    world.drawMatches();
  };
  addEventListener("hashchange", goToPlace);
  if (!world) return;
  let down = null;
  const canvas = world.renderer.domElement;
  canvas.addEventListener("pointerdown", (event) => (down = [event.clientX, event.clientY]));
  canvas.addEventListener("pointerup", (event) => {
    if (!down || Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 4) return;
    if (state.measuring) measure.add(world.pick(event.clientX, event.clientY));
    else if (state.current < 0) {
      const i = world.pickCamera(event.clientX, event.clientY);
      if (i >= 0) panel.go(i);
    }
  });
  world.controls.addEventListener("end", keepPlace);
}

function start() {
  window.scene = { ready: false, points: clouds.reduce((n, c) => n + c.count, 0), pictures: head.pictures.length };
  try {
    world = new World($("view"));
  } catch (error) {
    world = null;
    const picture = make("img");
    picture.alt = "The scene from the front and from above";
    if (head.fallback) $("view").append(picture);
    picture.src = head.fallback;
    $("note").textContent = "No WebGL 2 here: a still picture and the list.";
  }
  panel.build();
  panel.theme(matchMedia("(prefers-color-scheme: light)").matches);
  panel.menu(innerWidth > 640);
  listen();
  goToPlace();
  if (world) world.draw();
  Object.assign(window.scene, {
    ready: !world, // else with the first picture
    webgl: Boolean(world),
    drawn: () => (world && clouds.length ? world.points[state.cloud].geometry.drawRange.count : 0),
    frame: () => world && world.frame,
    state,
  });
  if (location.hash.includes("test")) document.title = `ready ${window.scene.points} ${window.scene.pictures}`;
}

start();
