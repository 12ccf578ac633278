// SPDX-License-Identifier: Apache-2.0
// What the file holds: one header of JSON, and the clouds as blocks of base64.
"use strict";

const head = JSON.parse(document.getElementById("head").textContent);

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** The bytes of one attribute of one cloud; long ones lie in several blocks. */
function bytesOf(cloud, part, count) {
  const out = new Uint8Array(count);
  let at = 0;
  for (const block of document.querySelectorAll(`script[data-cloud="${cloud}"][data-part="${part}"]`)) {
    const bytes = decoded(block.textContent);
    out.set(bytes, at);
    at += bytes.length;
    block.remove(); // the text is as large as the bytes
  }
  return out;
}

/** The numbers of a cloud's pictures: a byte each, or two above 256 pictures. */
function numbersOf(cloud, i) {
  const bytes = bytesOf(i, "picture", cloud.count * cloud.picture_bytes);
  return cloud.picture_bytes === 1 ? bytes : new Uint16Array(bytes.buffer);
}

/** Places in the cloud's box, from 0 to `unit`: 16-bit numbers, or of 32 bits, which become floats up to 1. */
function placesOf(cloud, i) {
  const bytes = bytesOf(i, "xyz", cloud.count * 3 * cloud.place_bytes).buffer;
  if (cloud.place_bytes === 2) return { places: new Uint16Array(bytes), unit: 65535 };
  return { places: Float32Array.from(new Uint32Array(bytes), (v) => v / 4294967295), unit: 1 };
}

/** Points by falling confidence: places, colours, numbers of pictures. */
const clouds = head.clouds.map((cloud, i) => ({
  ...cloud,
  ...placesOf(cloud, i),
  colours: bytesOf(i, "rgb", cloud.count * 3),
  pictures: numbersOf(cloud, i),
}));

/** The ends of a pair's matches, pixels: x, y in picture a, x, y in picture b, and so on. */
function pixelsOf(pair) {
  const [a, b] = [head.pictures[pair.a], head.pictures[pair.b]];
  const sizes = [a.width, a.height, b.width, b.height];
  return Array.from(new Uint16Array(decoded(pair.xy).buffer), (v, k) => (v / 65535) * sizes[k % 4] - 0.5);
}

const placed = head.pictures.map((p, i) => i).filter((i) => head.pictures[i].pose);
const components = [...new Set(placed.map((i) => head.pictures[i].component))].sort((a, b) => a - b);

const state = {
  cloud: 0,
  component: components.length ? components[0] : 0,
  visible: head.pictures.map(() => true),
  hidden: 0, // share of the least confident points that are left out
  current: -1, // the picture in whose camera we stand
  other: -1, // the picture whose matches with the current one are drawn
  cameras: true,
  grid: false,
  measuring: false,
};

/** How many of the current cloud's points the confidence slider keeps. */
function keptPoints() {
  return clouds.length ? Math.round(clouds[state.cloud].count * (1 - state.hidden)) : 0;
}
