// SPDX-License-Identifier: Apache-2.0
// Record layouts shared by the kernels and by Python (which parses the enums below).

// One primitive: PRIM_FLOATS floats.
enum Prim {
  PRIM_KIND = 0,     // enum Kind
  PRIM_CENTRE = 1,   // 3
  PRIM_ROT = 4,      // 9, local to world, row-major
  PRIM_HALF = 13,    // 3, half extents of the local bounding box
  PRIM_SHAPE = 16,   // meaning depends on the kind; a room of 1 has a floor only, and sky all round
  PRIM_TEX = 17,     // 3, texture by dominant axis of the normal
  PRIM_PERIOD = 20,  // metres per texture tile
  PRIM_DETAIL = 21,  // second texture, modulates the first
  PRIM_DETAIL_AMOUNT = 22,
  PRIM_SPECULAR = 23,
  PRIM_GLOSS = 24,
  PRIM_HEIGHT = 25,  // height map of a relief
  PRIM_OFFSET = 26,  // 2, texture offset
  PRIM_TINT = 28,    // 3
  PRIM_FLOATS = 32,
};

enum Kind {
  KIND_NONE = 0,
  KIND_BOX = 1,
  KIND_ELLIPSOID = 2,
  KIND_TORUS = 3,
  KIND_CYLINDER = 4,
  KIND_ROUNDED = 5,
  KIND_FRAME = 6,
  KIND_STAR = 7,
  KIND_BLOB = 8,
  KIND_RELIEF = 9,
  KIND_ROOM = 10,
};

// One camera: CAM_FLOATS floats. x right, y down, z forward; pixel centres are integers.
enum Cam {
  CAM_POS = 0,    // 3
  CAM_ROT = 3,    // 9, camera to world, row-major
  CAM_FOCAL = 12,
  CAM_CENTRE = 13,  // 2, principal point
  CAM_FLOATS = 16,
};

// Light of one scene: LIGHT_FLOATS floats.
enum Light {
  LIGHT_POS = 0,     // 3, key light (casts shadows)
  LIGHT_COLOUR = 3,  // 3
  LIGHT_FILL = 6,    // 3, direction to the fill light
  LIGHT_FILL_AMOUNT = 9,
  LIGHT_AMBIENT = 10,
  LIGHT_FLOATS = 12,
};

// One leaf of a dead-leaves texture: LEAF_FLOATS floats, coordinates in tiles.
enum Leaf {
  LEAF_KIND = 0,    // 0 ellipse, 1 rectangle, 2 triangle
  LEAF_CENTRE = 1,  // 2
  LEAF_AXIS = 3,    // 2, cosine and sine
  LEAF_SIZE = 5,    // 2, half length and half width
  LEAF_COLOUR = 7,  // 3
  LEAF_SLOPE = 10,  // brightness slope along the axis
  LEAF_FLOATS = 12,
};
