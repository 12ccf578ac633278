// SPDX-License-Identifier: Apache-2.0
// Record layouts shared by the kernels and by Python (which parses the enums below).

// One primitive: PRIM_FLOATS floats.
enum Prim {
  PRIM_KIND = 0,     // enum Kind
  PRIM_CENTRE = 1,   // 3
  PRIM_ROT = 4,      // 9, local to world, row-major
  PRIM_HALF = 13,    // 3, half extents of the local bounding box
  PRIM_SHAPE = 16,   // meaning depends on the kind; a room of 1 has a floor only, and sky all round; index of a mesh
  PRIM_TEX = 17,     // 3, texture by dominant axis of the normal
  PRIM_PERIOD = 20,  // metres per texture tile
  PRIM_DETAIL = 21,  // second texture, modulates the first
  PRIM_DETAIL_AMOUNT = 22,
  PRIM_SPECULAR = 23,
  PRIM_GLOSS = 24,
  PRIM_HEIGHT = 25,  // height map of a relief; of a mesh: MESH_FLAT + MESH_PAINT, or 0
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
  KIND_MESH = 11,
};

// How one instance of a mesh looks, in PRIM_HEIGHT.
enum MeshLook {
  MESH_FLAT = 1,   // shaded by flat triangles
  MESH_PAINT = 2,  // the textures of PRIM_TEX in place of its own materials
};

// One node of a mesh's tree: NODE_FLOATS floats, places in half boxes.
enum Node {
  NODE_LOW = 0,    // 3
  NODE_FIRST = 3,  // first triangle of a leaf, else the first of two children side by side; counts within the mesh
  NODE_HIGH = 4,   // 3
  NODE_COUNT = 7,  // triangles of a leaf, else 0
  NODE_FLOATS = 8,
};

// What a triangle looks like: LOOK_FLOATS floats. Its corners, 9 floats, lie apart: rays read only those.
enum Look {
  LOOK_NORMAL = 0,    // 3 x 3, of each corner, in metres of the mesh as it is stored
  LOOK_UV = 9,        // 3 x 2, rows of the texture downwards
  LOOK_MATERIAL = 15,
  LOOK_FLOATS = 16,
};

enum Material {
  MATERIAL_COLOUR = 0,   // 3
  MATERIAL_TEXTURE = 3,  // after the atlas's own, or -1
  MATERIAL_SPECULAR = 4,
  MATERIAL_GLOSS = 5,
  MATERIAL_FLOATS = 8,
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
  LIGHT_REACH = 11,  // metres within which things darken each other's corners, 0: they do not
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
