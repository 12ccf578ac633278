// SPDX-License-Identifier: Apache-2.0
// The scene in 3D. Coordinates of the file are OpenCV's (x right, y down, z forward); the group
// "world" turns them into three.js's (y up, z to the viewer) by the scale (1, -1, -1).
"use strict";

const FLIP = new THREE.Matrix4().makeScale(1, -1, -1);
const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Middle and size of what is to be seen: the cloud's middle 90 % and the cameras. */
function boundsOf() {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  const add = (p) => p.forEach((v, k) => {
    low[k] = Math.min(low[k], v);
    high[k] = Math.max(high[k], v);
  });
  if (clouds.length && clouds[state.cloud].count) {
    add(clouds[state.cloud].middle[0]);
    add(clouds[state.cloud].middle[1]);
  }
  for (const i of placed) {
    const p = head.pictures[i];
    if (p.component === state.component) add([p.pose[3], p.pose[7], p.pose[11]]);
  }
  if (low[0] > high[0]) return { middle: new THREE.Vector3(), size: 2 };
  const middle = new THREE.Vector3((low[0] + high[0]) / 2, -(low[1] + high[1]) / 2, -(low[2] + high[2]) / 2);
  return { middle, size: Math.max(Math.hypot(high[0] - low[0], high[1] - low[1], high[2] - low[2]), 1e-9), floor: high[1] };
}

class World {
  constructor(place) {
    this.place = place;
    this.renderer = new THREE.WebGLRenderer({ antialias: true, preserveDrawingBuffer: true });
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    place.appendChild(this.renderer.domElement);
    this.scene = new THREE.Scene();
    this.world = new THREE.Group();
    this.world.scale.set(1, -1, -1);
    this.scene.add(this.world);
    this.camera = new THREE.PerspectiveCamera(55, 1, 0.001, 1000);
    this.controls = new THREE.OrbitControls(this.camera, this.renderer.domElement);
    this.controls.addEventListener("change", () => this.draw());
    this.controls.addEventListener("start", () => this.leave());
    this.bounds = boundsOf();
    this.makeMask();
    this.makeClouds();
    this.makeCameras();
    this.matches = this.lines(this.world, 0x66d9a8);
    this.rule = this.lines(this.world, 0xff5577);
    this.floor = this.lines(this.world, 0x8899aa);
    this.matches.renderOrder = this.rule.renderOrder = 12;
    this.matches.material.depthTest = this.rule.material.depthTest = false;
    addEventListener("resize", () => this.resize());
  }

  lines(parent, colour) {
    const lines = new THREE.LineSegments(new THREE.BufferGeometry(), new THREE.LineBasicMaterial({ color: colour }));
    lines.frustumCulled = false;
    parent.add(lines);
    return lines;
  }

  setLines(lines, numbers) {
    lines.geometry.dispose();
    lines.geometry = new THREE.BufferGeometry().setAttribute("position", new THREE.BufferAttribute(new Float32Array(numbers), 3));
    lines.visible = numbers.length > 0;
  }

  /** One byte a picture says whether its points are drawn. */
  makeMask() {
    const width = 256, height = Math.max(Math.ceil(head.pictures.length / width), 1);
    this.mask = new THREE.DataTexture(new Uint8Array(width * height), width, height, THREE.RedFormat, THREE.UnsignedByteType);
    this.mask.image.data.fill(255); // files of points name no pictures
    this.mask.minFilter = this.mask.magFilter = THREE.NearestFilter;
    this.mask.unpackAlignment = 1;
  }

  shown(i) {
    return state.visible[i] && head.pictures[i].component === state.component;
  }

  updateMask() {
    head.pictures.forEach((p, i) => (this.mask.image.data[i] = this.shown(i) ? 255 : 0));
    this.mask.needsUpdate = true;
    for (const { i, group } of this.frusta) {
      const alone = state.current >= 0 && state.current !== i;
      group.visible = state.current === i || (state.cameras && this.shown(i) && !alone);
    }
  }

  makeClouds() {
    this.points = clouds.map((cloud) => {
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute("position", new THREE.BufferAttribute(cloud.places, 3, cloud.unit > 1));
      geometry.setAttribute("tone", new THREE.BufferAttribute(cloud.colours, 3, true));
      geometry.setAttribute("picture", new THREE.BufferAttribute(cloud.pictures, 1, false));
      const uniforms = {
        low: { value: new THREE.Vector3(...cloud.low) },
        size: { value: new THREE.Vector3(...cloud.size) },
        pixels: { value: 2 },
        mode: { value: 0 },
        count: { value: cloud.count },
        mask: { value: this.mask },
      };
      const points = new THREE.Points(geometry, new THREE.ShaderMaterial({
        uniforms,
        vertexShader: `
          uniform vec3 low, size; uniform float pixels; uniform int mode, count; uniform sampler2D mask;
          attribute vec3 tone; attribute float picture; varying vec3 shade;
          const vec3 STOPS[5] = vec3[5](vec3(.267, .004, .329), vec3(.231, .322, .545), vec3(.129, .569, .549),
            vec3(.369, .788, .384), vec3(.992, .906, .145)); // matplotlib's viridis (CC0)
          vec3 ramp(float t) { int i = int(min(t * 4., 3.)); return mix(STOPS[i], STOPS[i + 1], t * 4. - float(i)); }
          void main() {
            int p = int(picture);
            float rank = 1. - float(gl_VertexID) / float(max(count, 1));
            float turn = fract(float(p) * .61803399) * 6.2831853;
            shade = mode == 0 ? tone : mode == 1 ? ramp(rank) : .6 + .4 * cos(turn + vec3(0., 2.1, 4.2));
            gl_Position = projectionMatrix * modelViewMatrix * vec4(low + position * size, 1.);
            gl_PointSize = pixels;
            if (texelFetch(mask, ivec2(p % 256, p / 256), 0).r < .5) gl_Position = vec4(2., 2., 2., 1.);
          }`,
        fragmentShader: "varying vec3 shade; void main() { gl_FragColor = vec4(shade, 1.); }",
      }));
      points.frustumCulled = false;
      this.world.add(points);
      return points;
    });
  }

  /** Corners of a picture at depth d before its camera, and its middle, in the camera's axes. */
  static window(p, d) {
    const [fx, fy, cx, cy] = p.k;
    const left = ((-0.5 - cx) / fx) * d, right = ((p.width - 0.5 - cx) / fx) * d;
    const top = ((-0.5 - cy) / fy) * d, bottom = ((p.height - 0.5 - cy) / fy) * d;
    return { left, right, top, bottom, corners: [[left, top, d], [right, top, d], [right, bottom, d], [left, bottom, d]] };
  }

  makeCameras() {
    const many = placed.length > 40 ? Math.sqrt(40 / placed.length) : 1;
    this.reach = this.bounds.size * 0.045 * many;
    this.frusta = placed.map((i) => {
      const p = head.pictures[i], w = World.window(p, this.reach), o = [0, 0, 0], c = w.corners;
      const group = new THREE.Group();
      const pose = new THREE.Matrix4().set(...p.pose, 0, 0, 0, 1);
      group.applyMatrix4(pose);
      const edges = this.lines(group, 0xffb347);
      this.setLines(edges, [o, c[0], o, c[1], o, c[2], o, c[3], c[0], c[1], c[1], c[2], c[2], c[3], c[3], c[0]].flat());
      const geometry = new THREE.PlaneGeometry(w.right - w.left, w.bottom - w.top);
      const material = new THREE.MeshBasicMaterial({ side: THREE.DoubleSide, transparent: true, opacity: p.thumb ? 1 : 0.15 });
      if (p.thumb) {
        material.map = new THREE.TextureLoader().load(p.thumb, () => this.draw());
        material.map.colorSpace = THREE.SRGBColorSpace;
      }
      const plane = new THREE.Mesh(geometry, material);
      plane.rotation.x = Math.PI; // a plane's top is +y, a picture's is -y
      plane.position.set((w.left + w.right) / 2, (w.top + w.bottom) / 2, this.reach);
      plane.userData.picture = i;
      group.add(plane);
      this.world.add(group);
      return { i, group, plane, edges, pose };
    });
  }

  // ---- where we stand ------------------------------------------------------------------

  resize() {
    const { clientWidth: w, clientHeight: h } = this.place;
    this.renderer.setSize(w, h);
    if (state.current >= 0) this.lens(head.pictures[state.current]);
    else this.freeLens();
    this.draw();
  }

  freeLens() {
    const { clientWidth: w, clientHeight: h } = this.place;
    this.camera.fov = 55;
    this.camera.aspect = w / Math.max(h, 1);
    this.depths();
    this.shift(w, h, 0, 0);
  }

  /** Move the middle of the view by (x, y) pixels, and into what the panels leave free. */
  shift(w, h, x, y) {
    const free = panel.free();
    this.camera.setViewOffset(w, h, -x - free.left / 2, -y + free.bottom / 2, w, h);
  }

  depths() {
    this.camera.near = this.bounds.size * 1e-3;
    this.camera.far = this.bounds.size * 50;
  }

  /** The picture's own field of view, with the whole picture in the window. */
  lens(p) {
    const { clientWidth: w, clientHeight: h } = this.place, [fx, fy, cx, cy] = p.k, free = panel.free();
    const scale = Math.min((w - free.left) / p.width, (h - free.bottom) / p.height);
    this.camera.fov = (2 * Math.atan(h / scale / 2 / fy) * 180) / Math.PI;
    this.camera.aspect = w / fx / (h / fy);
    this.depths();
    this.shift(w, h, (cx - (p.width - 1) / 2) * scale, (cy - (p.height - 1) / 2) * scale);
    const middle = [(w + free.left) / 2, (h - free.bottom) / 2];
    this.frame = [middle[0] - (p.width * scale) / 2, middle[1] - (p.height * scale) / 2, scale]; // where the picture is
  }

  fit() {
    this.bounds = boundsOf();
    const { middle, size } = this.bounds, cameras = placed.map((i) => head.pictures[i]).filter((p) => p.component === state.component);
    const back = new THREE.Vector3(0, 0.25, 1);
    if (cameras.length) { // behind the cameras, looking where they look
      const mean = new THREE.Vector3();
      for (const p of cameras) mean.add(new THREE.Vector3(-p.pose[2], p.pose[6], p.pose[10]));
      if (mean.length() > 0.3 * cameras.length) back.copy(mean.normalize()).add(new THREE.Vector3(0, 0.25, 0));
    }
    this.leave();
    const { clientWidth: w, clientHeight: h } = this.place;
    const narrow = Math.max(h / Math.max(w - panel.free().left, 1), 1); // of a phone held upright
    this.moveTo(middle.clone().addScaledVector(back.normalize(), size * 0.95 * narrow), middle);
  }

  moveTo(position, target) {
    this.freeLens();
    const from = this.camera.position.clone(), aim = this.controls.target.clone(), start = performance.now();
    const step = (now) => {
      const t = reduced || !window.scene.ready ? 1 : Math.min((now - start) / 350, 1), s = t * t * (3 - 2 * t);
      this.camera.position.lerpVectors(from, position, s);
      this.controls.target.lerpVectors(aim, target, s);
      this.controls.update();
      this.draw();
      if (t < 1 && state.current < 0) requestAnimationFrame(step);
    };
    step(start);
  }

  /** Stand in the camera of picture i. */
  enter(i) {
    const p = head.pictures[i];
    if (!p.pose) return;
    state.current = i;
    const m = FLIP.clone().multiply(new THREE.Matrix4().set(...p.pose, 0, 0, 0, 1)).multiply(FLIP);
    const scale = new THREE.Vector3(), forward = new THREE.Vector3(p.pose[2], -p.pose[6], -p.pose[10]);
    m.decompose(this.camera.position, this.camera.quaternion, scale);
    const away = Math.max(this.bounds.middle.clone().sub(this.camera.position).dot(forward), this.bounds.size * 0.1);
    this.controls.target.copy(this.camera.position).addScaledVector(forward, away);
    panel.follow(); // first: its tools take room
    this.lens(p);
    for (const f of this.frusta) this.paint(f);
    this.updateMask();
    this.draw();
  }

  leave() {
    if (state.current < 0) return;
    state.current = -1;
    panel.follow();
    this.freeLens();
    for (const f of this.frusta) this.paint(f);
    this.updateMask();
    this.draw();
  }

  paint(f) {
    const inside = state.current === f.i;
    f.plane.material.opacity = inside ? panel.opacity() : head.pictures[f.i].thumb ? 1 : 0.15;
    f.plane.material.depthTest = !inside;
    f.plane.renderOrder = inside ? 10 : 0;
  }

  // ---- what is drawn --------------------------------------------------------------------

  /** Draw before the next frame, once, however often it is asked for. */
  draw() {
    if (!this.asked) requestAnimationFrame(() => this.render());
    this.asked = true;
  }

  render() {
    this.asked = false;
    this.points.forEach((points, k) => {
      points.visible = k === state.cloud;
      points.geometry.setDrawRange(0, keptPoints());
      points.material.uniforms.pixels.value = panel.size() * this.renderer.getPixelRatio();
      points.material.uniforms.mode.value = panel.mode();
    });
    this.scene.background = new THREE.Color(getComputedStyle(document.documentElement).getPropertyValue("--paper").trim());
    this.renderer.render(this.scene, this.camera);
    window.scene.ready = true;
  }

  drawGrid() {
    const numbers = [];
    if (state.grid) {
      const b = boundsOf(), floor = b.floor ?? 0, step = gridStep(b.size), n = Math.ceil(b.size / step);
      const x = Math.round(b.middle.x / step) * step, z = Math.round(-b.middle.z / step) * step;
      for (let i = -n; i <= n; i++) {
        numbers.push(x + i * step, floor, z - n * step, x + i * step, floor, z + n * step);
        numbers.push(x - n * step, floor, z + i * step, x + n * step, floor, z + i * step);
      }
    }
    this.setLines(this.floor, numbers);
  }

  /** Lines between the matching pixels of two pictures, on their planes. */
  drawMatches() {
    const numbers = [], pair = head.matches.find((m) => (m.a === state.current && m.b === state.other) || (m.b === state.current && m.a === state.other));
    if (pair) {
      const at = (i, x, y) => {
        const p = head.pictures[i], [fx, fy, cx, cy] = p.k, d = this.reach, q = p.pose;
        const c = [((x - cx) / fx) * d, ((y - cy) / fy) * d, d];
        return [0, 4, 8].map((r) => q[r] * c[0] + q[r + 1] * c[1] + q[r + 2] * c[2] + q[r + 3]);
      };
      const xy = pixelsOf(pair);
      for (let k = 0; k < xy.length; k += 4) numbers.push(...at(pair.a, xy[k], xy[k + 1]), ...at(pair.b, xy[k + 2], xy[k + 3]));
    }
    this.setLines(this.matches, numbers);
    for (const f of this.frusta) if (pair && (f.i === pair.a || f.i === pair.b)) f.group.visible = true;
    this.draw();
  }

  // ---- the mouse --------------------------------------------------------------------------

  /** The drawn point nearest to the viewer within 8 pixels of (x, y), in the file's coordinates. */
  pick(x, y) {
    if (!clouds.length) return null;
    const c = clouds[state.cloud], { clientWidth: w, clientHeight: h } = this.place, data = this.mask.image.data;
    this.camera.updateMatrixWorld();
    const e = this.camera.projectionMatrix.clone().multiply(this.camera.matrixWorldInverse).multiply(FLIP).elements;
    let best = null, depth = Infinity;
    for (let i = 0, n = keptPoints(); i < n; i++) {
      if (!data[c.pictures[i]]) continue;
      const p = [0, 1, 2].map((k) => c.low[k] + (c.places[3 * i + k] / c.unit) * c.size[k]);
      const q = e[3] * p[0] + e[7] * p[1] + e[11] * p[2] + e[15];
      if (q <= 0 || q >= depth) continue;
      const u = ((e[0] * p[0] + e[4] * p[1] + e[8] * p[2] + e[12]) / q + 1) * (w / 2) - x;
      const v = (1 - (e[1] * p[0] + e[5] * p[1] + e[9] * p[2] + e[13]) / q) * (h / 2) - y;
      if (u * u + v * v < 64) { best = p; depth = q; }
    }
    return best;
  }

  /** The picture whose frustum lies under (x, y), or -1. */
  pickCamera(x, y) {
    const at = new THREE.Vector2((x / this.place.clientWidth) * 2 - 1, 1 - (y / this.place.clientHeight) * 2);
    const ray = new THREE.Raycaster();
    ray.setFromCamera(at, this.camera);
    const hits = ray.intersectObjects(this.frusta.filter((f) => f.group.visible).map((f) => f.plane));
    return hits.length ? hits[0].object.userData.picture : -1;
  }
}

/** 1, 2 or 5 times a power of ten, about a twentieth of the size. */
function gridStep(size) {
  const ten = 10 ** Math.floor(Math.log10(size / 12));
  return [1, 2, 5, 10].map((k) => k * ten).find((s) => size / s <= 25);
}
