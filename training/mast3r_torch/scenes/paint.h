// SPDX-License-Identifier: Apache-2.0
// Textures that are drawn a pixel at a time. Included by render.cu.

// Dead leaves: opaque shapes, the first in the list lies on top. Tiles periodically.
FN void leafPixel(const float* leaves, int count, int size, float* out, int pixel) {
  float px = (pixel % size + 0.5f) / size, py = (pixel / size + 0.5f) / size;
  V3 colour = v3(leaves + (int64_t)(count - 1) * LEAF_FLOATS + LEAF_COLOUR);
  for (int i = 0; i < count - 1; i++) {
    const float* leaf = leaves + (int64_t)i * LEAF_FLOATS;
    float dx = px - leaf[LEAF_CENTRE], dy = py - leaf[LEAF_CENTRE + 1];
    dx -= floorf(dx + 0.5f);
    dy -= floorf(dy + 0.5f);
    float u = (dx * leaf[LEAF_AXIS] + dy * leaf[LEAF_AXIS + 1]) / leaf[LEAF_SIZE];
    float v = (dy * leaf[LEAF_AXIS] - dx * leaf[LEAF_AXIS + 1]) / leaf[LEAF_SIZE + 1];
    int kind = (int)leaf[LEAF_KIND];
    bool in = kind == 0 ? u * u + v * v < 1
                        : (kind == 1 ? fmaxf(fabsf(u), fabsf(v)) < 1 : fabsf(u) < 1 && fabsf(v) < 0.5f * (1 - u));
    if (!in) continue;
    colour = v3(leaf + LEAF_COLOUR) * (1 + leaf[LEAF_SLOPE] * u);
    break;
  }
  int area = size * size;
  out[pixel] = colour.x;
  out[area + pixel] = colour.y;
  out[2 * area + pixel] = colour.z;
}

// Voronoi cells with grout: colour of the nearest site, darkened where two are equally near.
FN void cellPixel(const float* sites, int count, int size, float grout, float* out, int pixel) {
  float px = (pixel % size + 0.5f) / size, py = (pixel / size + 0.5f) / size, d1 = kFar, d2 = kFar;
  int best = 0;
  for (int i = 0; i < count; i++) {
    float dx = px - sites[5 * i], dy = py - sites[5 * i + 1];
    dx -= floorf(dx + 0.5f);
    dy -= floorf(dy + 0.5f);
    float d = sqrtf(dx * dx + dy * dy);
    if (d < d1) {
      d2 = d1;
      d1 = d;
      best = i;
    } else if (d < d2) {
      d2 = d;
    }
  }
  float dark = d2 - d1 < grout ? 0.25f : 1.0f;
  for (int c = 0; c < 3; c++) out[c * size * size + pixel] = dark * sites[5 * best + 2 + c];
}
