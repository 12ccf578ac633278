module @g_input {
  func.func public @main(%x0: tensor<6xf32>) -> (tensor<6xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<6xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x3xf32>) -> tensor<6xf32>
    return %1 : tensor<6xf32>
  }
}
module @g_param {
  func.func public @main() -> (tensor<1xf32>) {
    %0 = stablehlo.constant dense<1.5e+00> : tensor<f32>
    %1 = stablehlo.reshape %0 : (tensor<f32>) -> tensor<1xf32>
    return %1 : tensor<1xf32>
  }
}
module @g_neg {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.negate %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_abs {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.abs %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_exp {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.exponential %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_expm1 {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.exponential_minus_one %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_log {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<3x5xf32>
    %3 = stablehlo.add %1, %2 : tensor<3x5xf32>
    %4 = stablehlo.log %3 : tensor<3x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %5 : tensor<15xf32>
  }
}
module @g_sqrt {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<3x5xf32>
    %3 = stablehlo.add %1, %2 : tensor<3x5xf32>
    %4 = stablehlo.sqrt %3 : tensor<3x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %5 : tensor<15xf32>
  }
}
module @g_rsqrt {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<3x5xf32>
    %3 = stablehlo.add %1, %2 : tensor<3x5xf32>
    %4 = stablehlo.rsqrt %3 : tensor<3x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %5 : tensor<15xf32>
  }
}
module @g_reciprocal {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<3x5xf32>
    %3 = stablehlo.add %1, %2 : tensor<3x5xf32>
    %4 = stablehlo.constant dense<1.0e+00> : tensor<3x5xf32>
    %5 = stablehlo.divide %4, %3 : tensor<3x5xf32>
    %6 = stablehlo.reshape %5 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %6 : tensor<15xf32>
  }
}
module @g_square {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_sin {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.sine %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_cos {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.cosine %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_tan {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.tan %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_tanh {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.tanh %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_sigmoid {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.logistic %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_erf {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = chlo.erf %0 : tensor<3x5xf32> -> tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_relu {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<3x5xf32>
    %2 = stablehlo.maximum %0, %1 : tensor<3x5xf32>
    %3 = stablehlo.reshape %2 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %3 : tensor<15xf32>
  }
}
module @g_gelu {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.constant dense<7.0710677e-01> : tensor<3x5xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<3x5xf32>
    %3 = chlo.erf %2 : tensor<3x5xf32> -> tensor<3x5xf32>
    %4 = stablehlo.constant dense<5.0e-01> : tensor<3x5xf32>
    %5 = stablehlo.multiply %0, %4 : tensor<3x5xf32>
    %6 = stablehlo.constant dense<1.0e+00> : tensor<3x5xf32>
    %7 = stablehlo.add %3, %6 : tensor<3x5xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<3x5xf32>
    %9 = stablehlo.reshape %8 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %9 : tensor<15xf32>
  }
}
module @g_gelu_tanh {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<3x5xf32>
    %3 = stablehlo.constant dense<4.4715e-02> : tensor<3x5xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<3x5xf32>
    %5 = stablehlo.add %0, %4 : tensor<3x5xf32>
    %6 = stablehlo.constant dense<7.978846e-01> : tensor<3x5xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<3x5xf32>
    %8 = stablehlo.tanh %7 : tensor<3x5xf32>
    %9 = stablehlo.constant dense<5.0e-01> : tensor<3x5xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<3x5xf32>
    %11 = stablehlo.constant dense<1.0e+00> : tensor<3x5xf32>
    %12 = stablehlo.add %8, %11 : tensor<3x5xf32>
    %13 = stablehlo.multiply %10, %12 : tensor<3x5xf32>
    %14 = stablehlo.reshape %13 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %14 : tensor<15xf32>
  }
}
module @g_step {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<3x5xf32>
    %2 = stablehlo.compare GT, %0, %1, FLOAT : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xi1>
    %3 = stablehlo.constant dense<1.0e+00> : tensor<3x5xf32>
    %4 = stablehlo.select %2, %3, %1 : tensor<3x5xi1>, tensor<3x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %5 : tensor<15xf32>
  }
}
module @g_floor {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.floor %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_ceil {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.ceil %0 : tensor<3x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %2 : tensor<15xf32>
  }
}
module @g_add {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.add %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_sub {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.subtract %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_mul {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_div {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.divide %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_pow {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.power %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_maximum {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.maximum %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_minimum {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.minimum %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_atan2 {
  func.func public @main(%x0: tensor<8xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<8xf32>) -> tensor<2x1x4xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x1x4xf32>
    %2 = stablehlo.constant dense<5.0e-01> : tensor<2x1x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x1x4xf32>
    %4 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %6 = stablehlo.constant dense<5.0e-01> : tensor<3x4xf32>
    %7 = stablehlo.add %5, %6 : tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %10 = stablehlo.atan2 %8, %9 : tensor<2x3x4xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %11 : tensor<24xf32>
  }
}
module @g_affine {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.constant dense<2.0e+00> : tensor<3x5xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<3x5xf32>
    %3 = stablehlo.constant dense<-1.0e+00> : tensor<3x5xf32>
    %4 = stablehlo.add %2, %3 : tensor<3x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %5 : tensor<15xf32>
  }
}
module @g_cast {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<3x5xf32>
    %2 = stablehlo.convert %1 : (tensor<3x5xf32>) -> tensor<3x5xf16>
    %3 = stablehlo.convert %2 : (tensor<3x5xf16>) -> tensor<3x5xf32>
    %4 = stablehlo.reshape %3 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %4 : tensor<15xf32>
  }
}
module @g_reshape {
  func.func public @main(%x0: tensor<12xf32>) -> (tensor<12xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<12xf32>) -> tensor<2x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x6xf32>) -> tensor<3x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x4xf32>) -> tensor<12xf32>
    return %2 : tensor<12xf32>
  }
}
module @g_transpose {
  func.func public @main(%x0: tensor<24xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %2 = stablehlo.reshape %1 : (tensor<4x2x3xf32>) -> tensor<24xf32>
    return %2 : tensor<24xf32>
  }
}
module @g_slice {
  func.func public @main(%x0: tensor<20xf32>) -> (tensor<6xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<20xf32>) -> tensor<4x5xf32>
    %1 = stablehlo.slice %0 [1:3, 0:5:2] : (tensor<4x5xf32>) -> tensor<2x3xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x3xf32>) -> tensor<6xf32>
    return %2 : tensor<6xf32>
  }
}
module @g_concat {
  func.func public @main(%x0: tensor<6xf32>, %x1: tensor<8xf32>) -> (tensor<14xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<6xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.reshape %x1 : (tensor<8xf32>) -> tensor<2x4xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x7xf32>) -> tensor<14xf32>
    return %3 : tensor<14xf32>
  }
}
module @g_pad {
  func.func public @main(%x0: tensor<6xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<6xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.constant dense<7.0e+00> : tensor<f32>
    %2 = stablehlo.pad %0, %1, low = [1, 0], high = [0, 2], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x5xf32>
    %3 = stablehlo.reshape %2 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %3 : tensor<15xf32>
  }
}
module @g_broadcast {
  func.func public @main(%x0: tensor<3xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<3xf32>) -> tensor<3x1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    return %2 : tensor<24xf32>
  }
}
module @g_gather {
  func.func public @main(%x0: tensor<24xf32>, %x1: tensor<5xi32>) -> (tensor<60xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<3x2x4xf32>
    %1 = "stablehlo.gather"(%0, %x1) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 3, 1, 4>}> : (tensor<3x2x4xf32>, tensor<5xi32>) -> tensor<3x5x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x5x4xf32>) -> tensor<60xf32>
    return %2 : tensor<60xf32>
  }
}
module @g_scatter_add {
  func.func public @main(%x0: tensor<20xf32>, %x1: tensor<5xi32>) -> (tensor<12xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<20xf32>) -> tensor<5x4xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<3x4xf32>
    %2 = "stablehlo.scatter"(%1, %x1, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<3x4xf32>, tensor<5xi32>, tensor<5x4xf32>) -> tensor<3x4xf32>
    %3 = stablehlo.reshape %2 : (tensor<3x4xf32>) -> tensor<12xf32>
    return %3 : tensor<12xf32>
  }
}
module @g_one_hot {
  func.func public @main(%x0: tensor<5xi32>) -> (tensor<15xf32>) {
    %0 = stablehlo.iota dim = 1 : tensor<5x3xi32>
    %1 = stablehlo.broadcast_in_dim %x0, dims = [0] : (tensor<5xi32>) -> tensor<5x3xi32>
    %2 = stablehlo.compare EQ, %0, %1, SIGNED : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
    %3 = stablehlo.convert %2 : (tensor<5x3xi1>) -> tensor<5x3xf32>
    %4 = stablehlo.reshape %3 : (tensor<5x3xf32>) -> tensor<15xf32>
    return %4 : tensor<15xf32>
  }
}
module @g_matmul {
  func.func public @main(%x0: tensor<24xf32>, %x1: tensor<20xf32>) -> (tensor<30xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.reshape %x1 : (tensor<20xf32>) -> tensor<4x5xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1, 2] : (tensor<4x5xf32>) -> tensor<2x4x5xf32>
    %3 = stablehlo.dot_general %0, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x3x5xf32>) -> tensor<30xf32>
    return %4 : tensor<30xf32>
  }
}
module @g_linear {
  func.func public @main(%x0: tensor<12xf32>, %x1: tensor<20xf32>, %x2: tensor<5xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<12xf32>) -> tensor<3x4xf32>
    %1 = stablehlo.reshape %x1 : (tensor<20xf32>) -> tensor<5x4xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
    %3 = stablehlo.broadcast_in_dim %x2, dims = [1] : (tensor<5xf32>) -> tensor<3x5xf32>
    %4 = stablehlo.add %2, %3 : tensor<3x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<3x5xf32>) -> tensor<15xf32>
    return %5 : tensor<15xf32>
  }
}
module @g_rope {
  func.func public @main(%x0: tensor<96xf32>, %w0: tensor<6x1x8xf32>, %w1: tensor<6x1x8xf32>) -> (tensor<96xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %2 = stablehlo.slice %1 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %3 = stablehlo.slice %1 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %4 = stablehlo.slice %1 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %5 = stablehlo.slice %1 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %6 = stablehlo.concatenate %2, %3, %4, %5, dim = 3 : (tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>) -> tensor<1x6x2x8xf32>
    %7 = stablehlo.broadcast_in_dim %w0, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %8 = stablehlo.multiply %1, %7 : tensor<1x6x2x8xf32>
    %9 = stablehlo.broadcast_in_dim %w1, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %10 = stablehlo.multiply %6, %9 : tensor<1x6x2x8xf32>
    %11 = stablehlo.add %8, %10 : tensor<1x6x2x8xf32>
    %12 = stablehlo.reshape %11 : (tensor<1x6x2x8xf32>) -> tensor<1x6x16xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x6x16xf32>) -> tensor<96xf32>
    return %13 : tensor<96xf32>
  }
}
// w0: table of 48 as f32[6,1,8], dimensions []
// w1: table of 48 as f32[6,1,8], dimensions []
module @g_attention {
  func.func public @main(%x0: tensor<96xf32>, %x1: tensor<160xf32>, %x2: tensor<160xf32>) -> (tensor<96xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<96xf32>) -> tensor<2x3x16xf32>
    %1 = stablehlo.reshape %x1 : (tensor<160xf32>) -> tensor<2x5x16xf32>
    %2 = stablehlo.reshape %x2 : (tensor<160xf32>) -> tensor<2x5x16xf32>
    %3 = stablehlo.reshape %0 : (tensor<2x3x16xf32>) -> tensor<2x3x2x8xf32>
    %4 = stablehlo.reshape %1 : (tensor<2x5x16xf32>) -> tensor<2x5x2x8xf32>
    %5 = stablehlo.reshape %2 : (tensor<2x5x16xf32>) -> tensor<2x5x2x8xf32>
    %6 = stablehlo.dot_general %3, %4, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [HIGHEST, HIGHEST] : (tensor<2x3x2x8xf32>, tensor<2x5x2x8xf32>) -> tensor<2x2x3x5xf32>
    %7 = stablehlo.constant dense<3.0e-01> : tensor<2x2x3x5xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<2x2x3x5xf32>
    %9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%8 init: %9) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x3x5xf32>, tensor<f32>) -> tensor<2x2x3xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x2x3xf32>) -> tensor<2x2x3x5xf32>
    %12 = stablehlo.subtract %8, %11 : tensor<2x2x3x5xf32>
    %13 = stablehlo.exponential %12 : tensor<2x2x3x5xf32>
    %14 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %15 = stablehlo.reduce(%13 init: %14) applies stablehlo.add across dimensions = [3] : (tensor<2x2x3x5xf32>, tensor<f32>) -> tensor<2x2x3xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x2x3xf32>) -> tensor<2x2x3x5xf32>
    %17 = stablehlo.divide %13, %16 : tensor<2x2x3x5xf32>
    %18 = stablehlo.dot_general %17, %5, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x2x3x5xf32>, tensor<2x5x2x8xf32>) -> tensor<2x2x3x8xf32>
    %19 = stablehlo.transpose %18, dims = [0, 2, 1, 3] : (tensor<2x2x3x8xf32>) -> tensor<2x3x2x8xf32>
    %20 = stablehlo.reshape %19 : (tensor<2x3x2x8xf32>) -> tensor<2x3x16xf32>
    %21 = stablehlo.reshape %20 : (tensor<2x3x16xf32>) -> tensor<96xf32>
    return %21 : tensor<96xf32>
  }
}
module @g_layer_norm {
  func.func public @main(%x0: tensor<24xf32>, %x1: tensor<8xf32>, %x2: tensor<8xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<3x8xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.constant dense<1.25e-01> : tensor<3xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<3xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xf32>) -> tensor<3x8xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<3x8xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<3x8xf32>
    %8 = stablehlo.reduce(%7 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %9 = stablehlo.multiply %8, %3 : tensor<3xf32>
    %10 = stablehlo.constant dense<1.0e-06> : tensor<3xf32>
    %11 = stablehlo.add %9, %10 : tensor<3xf32>
    %12 = stablehlo.rsqrt %11 : tensor<3xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<3xf32>) -> tensor<3x8xf32>
    %14 = stablehlo.multiply %6, %13 : tensor<3x8xf32>
    %15 = stablehlo.broadcast_in_dim %x1, dims = [1] : (tensor<8xf32>) -> tensor<3x8xf32>
    %16 = stablehlo.multiply %14, %15 : tensor<3x8xf32>
    %17 = stablehlo.broadcast_in_dim %x2, dims = [1] : (tensor<8xf32>) -> tensor<3x8xf32>
    %18 = stablehlo.add %16, %17 : tensor<3x8xf32>
    %19 = stablehlo.reshape %18 : (tensor<3x8xf32>) -> tensor<24xf32>
    return %19 : tensor<24xf32>
  }
}
module @g_rms_norm {
  func.func public @main(%x0: tensor<24xf32>, %x1: tensor<8xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<3x8xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x8xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %4 = stablehlo.constant dense<1.25e-01> : tensor<3xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<3xf32>
    %6 = stablehlo.constant dense<1.0e-06> : tensor<3xf32>
    %7 = stablehlo.add %5, %6 : tensor<3xf32>
    %8 = stablehlo.rsqrt %7 : tensor<3xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<3xf32>) -> tensor<3x8xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<3x8xf32>
    %11 = stablehlo.broadcast_in_dim %x1, dims = [1] : (tensor<8xf32>) -> tensor<3x8xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<3x8xf32>
    %13 = stablehlo.reshape %12 : (tensor<3x8xf32>) -> tensor<24xf32>
    return %13 : tensor<24xf32>
  }
}
module @g_softmax {
  func.func public @main(%x0: tensor<30xf32>) -> (tensor<30xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<30xf32>) -> tensor<2x5x3xf32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x5x3xf32>
    %4 = stablehlo.subtract %0, %3 : tensor<2x5x3xf32>
    %5 = stablehlo.exponential %4 : tensor<2x5x3xf32>
    %6 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %7 = stablehlo.reduce(%5 init: %6) applies stablehlo.add across dimensions = [1] : (tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x5x3xf32>
    %9 = stablehlo.divide %5, %8 : tensor<2x5x3xf32>
    %10 = stablehlo.reshape %9 : (tensor<2x5x3xf32>) -> tensor<30xf32>
    return %10 : tensor<30xf32>
  }
}
module @g_l2_normalize {
  func.func public @main(%x0: tensor<18xf32>) -> (tensor<18xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<18xf32>) -> tensor<3x6xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x6xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [1] : (tensor<3x6xf32>, tensor<f32>) -> tensor<3xf32>
    %4 = stablehlo.sqrt %3 : tensor<3xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xf32>) -> tensor<3x6xf32>
    %6 = stablehlo.divide %0, %5 : tensor<3x6xf32>
    %7 = stablehlo.reshape %6 : (tensor<3x6xf32>) -> tensor<18xf32>
    return %7 : tensor<18xf32>
  }
}
module @g_exp_points {
  func.func public @main(%x0: tensor<15xf32>) -> (tensor<15xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<15xf32>) -> tensor<5x3xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<5x3xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [1] : (tensor<5x3xf32>, tensor<f32>) -> tensor<5xf32>
    %4 = stablehlo.sqrt %3 : tensor<5xf32>
    %5 = stablehlo.constant dense<1.0e-08> : tensor<5xf32>
    %6 = stablehlo.maximum %4, %5 : tensor<5xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<5xf32>) -> tensor<5x3xf32>
    %8 = stablehlo.divide %0, %7 : tensor<5x3xf32>
    %9 = stablehlo.exponential_minus_one %4 : tensor<5xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<5xf32>) -> tensor<5x3xf32>
    %11 = stablehlo.multiply %8, %10 : tensor<5x3xf32>
    %12 = stablehlo.reshape %11 : (tensor<5x3xf32>) -> tensor<15xf32>
    return %12 : tensor<15xf32>
  }
}
module @g_conv2d {
  func.func public @main(%x0: tensor<90xf32>, %x1: tensor<108xf32>, %x2: tensor<4xf32>) -> (tensor<120xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<90xf32>) -> tensor<1x5x6x3xf32>
    %1 = stablehlo.reshape %x1 : (tensor<108xf32>) -> tensor<4x3x3x3xf32>
    %2 = stablehlo.transpose %1, dims = [0, 2, 3, 1] : (tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf32>
    %3 = stablehlo.convolution(%0, %2) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x5x6x3xf32>, tensor<4x3x3x3xf32>) -> tensor<1x5x6x4xf32>
    %4 = stablehlo.broadcast_in_dim %x2, dims = [3] : (tensor<4xf32>) -> tensor<1x5x6x4xf32>
    %5 = stablehlo.add %3, %4 : tensor<1x5x6x4xf32>
    %6 = stablehlo.reshape %5 : (tensor<1x5x6x4xf32>) -> tensor<120xf32>
    return %6 : tensor<120xf32>
  }
}
module @g_conv_transpose2d {
  func.func public @main(%x0: tensor<36xf32>, %x1: tensor<48xf32>, %x2: tensor<4xf32>) -> (tensor<192xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<36xf32>) -> tensor<1x3x4x3xf32>
    %1 = stablehlo.reshape %x1 : (tensor<48xf32>) -> tensor<3x4x2x2xf32>
    %2 = stablehlo.transpose %1, dims = [2, 3, 1, 0] : (tensor<3x4x2x2xf32>) -> tensor<2x2x4x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x2x4x3xf32>) -> tensor<16x3xf32>
    %4 = stablehlo.dot_general %0, %3, contracting_dims = [3] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x3x4x3xf32>, tensor<16x3xf32>) -> tensor<1x3x4x16xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x3x4x16xf32>) -> tensor<1x3x4x2x2x4xf32>
    %6 = stablehlo.transpose %5, dims = [0, 1, 3, 2, 4, 5] : (tensor<1x3x4x2x2x4xf32>) -> tensor<1x3x2x4x2x4xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x3x2x4x2x4xf32>) -> tensor<1x6x8x4xf32>
    %8 = stablehlo.broadcast_in_dim %x2, dims = [3] : (tensor<4xf32>) -> tensor<1x6x8x4xf32>
    %9 = stablehlo.add %7, %8 : tensor<1x6x8x4xf32>
    %10 = stablehlo.reshape %9 : (tensor<1x6x8x4xf32>) -> tensor<192xf32>
    return %10 : tensor<192xf32>
  }
}
module @g_pool2d {
  func.func public @main(%x0: tensor<90xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<90xf32>) -> tensor<1x5x6x3xf32>
    %1 = stablehlo.slice %0 [0:1, 0:3:2, 0:4, 0:3] : (tensor<1x5x6x3xf32>) -> tensor<1x2x4x3xf32>
    %2 = stablehlo.slice %0 [0:1, 0:3:2, 1:5, 0:3] : (tensor<1x5x6x3xf32>) -> tensor<1x2x4x3xf32>
    %3 = stablehlo.maximum %1, %2 : tensor<1x2x4x3xf32>
    %4 = stablehlo.slice %0 [0:1, 0:3:2, 2:6, 0:3] : (tensor<1x5x6x3xf32>) -> tensor<1x2x4x3xf32>
    %5 = stablehlo.maximum %3, %4 : tensor<1x2x4x3xf32>
    %6 = stablehlo.slice %0 [0:1, 1:4:2, 0:4, 0:3] : (tensor<1x5x6x3xf32>) -> tensor<1x2x4x3xf32>
    %7 = stablehlo.maximum %5, %6 : tensor<1x2x4x3xf32>
    %8 = stablehlo.slice %0 [0:1, 1:4:2, 1:5, 0:3] : (tensor<1x5x6x3xf32>) -> tensor<1x2x4x3xf32>
    %9 = stablehlo.maximum %7, %8 : tensor<1x2x4x3xf32>
    %10 = stablehlo.slice %0 [0:1, 1:4:2, 2:6, 0:3] : (tensor<1x5x6x3xf32>) -> tensor<1x2x4x3xf32>
    %11 = stablehlo.maximum %9, %10 : tensor<1x2x4x3xf32>
    %12 = stablehlo.reshape %11 : (tensor<1x2x4x3xf32>) -> tensor<24xf32>
    return %12 : tensor<24xf32>
  }
}
module @g_resize2d {
  func.func public @main(%x0: tensor<24xf32>, %w0: tensor<5x3xf32>, %w1: tensor<7x4xf32>) -> (tensor<70xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<1x3x4x2xf32>
    %1 = stablehlo.dot_general %w0, %0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<5x3xf32>, tensor<1x3x4x2xf32>) -> tensor<5x1x4x2xf32>
    %2 = stablehlo.dot_general %w1, %1, contracting_dims = [1] x [2], precision = [HIGHEST, HIGHEST] : (tensor<7x4xf32>, tensor<5x1x4x2xf32>) -> tensor<7x5x1x2xf32>
    %3 = stablehlo.transpose %2, dims = [2, 1, 0, 3] : (tensor<7x5x1x2xf32>) -> tensor<1x5x7x2xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x5x7x2xf32>) -> tensor<70xf32>
    return %4 : tensor<70xf32>
  }
}
// w0: table of 15 as f32[5,3], dimensions []
// w1: table of 28 as f32[7,4], dimensions []
module @g_pixel_shuffle {
  func.func public @main(%x0: tensor<48xf32>) -> (tensor<48xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<48xf32>) -> tensor<1x2x3x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x2x2x2xf32>
    %2 = stablehlo.transpose %1, dims = [0, 1, 4, 2, 5, 3] : (tensor<1x2x3x2x2x2xf32>) -> tensor<1x2x2x3x2x2xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x2x2x3x2x2xf32>) -> tensor<1x4x6x2xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x4x6x2xf32>) -> tensor<48xf32>
    return %4 : tensor<48xf32>
  }
}
module @g_pool_index {
  func.func public @main(%x0: tensor<24xf32>) -> (tensor<12xi32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<1x3x4x2xf32>
    %1 = stablehlo.iota dim = 1 : tensor<1x2x3x2xi32>
    %2 = stablehlo.iota dim = 2 : tensor<1x2x3x2xi32>
    %3 = stablehlo.slice %0 [0:1, 0:2, 0:3, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %4 = stablehlo.constant dense<1> : tensor<1x2x3x2xi32>
    %5 = stablehlo.multiply %1, %4 : tensor<1x2x3x2xi32>
    %6 = stablehlo.constant dense<0> : tensor<1x2x3x2xi32>
    %7 = stablehlo.add %5, %6 : tensor<1x2x3x2xi32>
    %8 = stablehlo.constant dense<4> : tensor<1x2x3x2xi32>
    %9 = stablehlo.multiply %7, %8 : tensor<1x2x3x2xi32>
    %10 = stablehlo.multiply %2, %4 : tensor<1x2x3x2xi32>
    %11 = stablehlo.add %10, %6 : tensor<1x2x3x2xi32>
    %12 = stablehlo.add %9, %11 : tensor<1x2x3x2xi32>
    %13 = stablehlo.slice %0 [0:1, 0:2, 1:4, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %14 = stablehlo.compare GT, %13, %3, FLOAT : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xi1>
    %15 = stablehlo.select %14, %13, %3 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %16 = stablehlo.multiply %1, %4 : tensor<1x2x3x2xi32>
    %17 = stablehlo.add %16, %6 : tensor<1x2x3x2xi32>
    %18 = stablehlo.multiply %17, %8 : tensor<1x2x3x2xi32>
    %19 = stablehlo.multiply %2, %4 : tensor<1x2x3x2xi32>
    %20 = stablehlo.add %19, %4 : tensor<1x2x3x2xi32>
    %21 = stablehlo.add %18, %20 : tensor<1x2x3x2xi32>
    %22 = stablehlo.select %14, %21, %12 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xi32>
    %23 = stablehlo.slice %0 [0:1, 1:3, 0:3, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %24 = stablehlo.compare GT, %23, %15, FLOAT : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xi1>
    %25 = stablehlo.select %24, %23, %15 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %26 = stablehlo.multiply %1, %4 : tensor<1x2x3x2xi32>
    %27 = stablehlo.add %26, %4 : tensor<1x2x3x2xi32>
    %28 = stablehlo.multiply %27, %8 : tensor<1x2x3x2xi32>
    %29 = stablehlo.multiply %2, %4 : tensor<1x2x3x2xi32>
    %30 = stablehlo.add %29, %6 : tensor<1x2x3x2xi32>
    %31 = stablehlo.add %28, %30 : tensor<1x2x3x2xi32>
    %32 = stablehlo.select %24, %31, %22 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xi32>
    %33 = stablehlo.slice %0 [0:1, 1:3, 1:4, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %34 = stablehlo.compare GT, %33, %25, FLOAT : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xi1>
    %35 = stablehlo.select %34, %33, %25 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %36 = stablehlo.multiply %1, %4 : tensor<1x2x3x2xi32>
    %37 = stablehlo.add %36, %4 : tensor<1x2x3x2xi32>
    %38 = stablehlo.multiply %37, %8 : tensor<1x2x3x2xi32>
    %39 = stablehlo.multiply %2, %4 : tensor<1x2x3x2xi32>
    %40 = stablehlo.add %39, %4 : tensor<1x2x3x2xi32>
    %41 = stablehlo.add %38, %40 : tensor<1x2x3x2xi32>
    %42 = stablehlo.select %34, %41, %32 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xi32>
    %43 = stablehlo.reshape %42 : (tensor<1x2x3x2xi32>) -> tensor<12xi32>
    return %43 : tensor<12xi32>
  }
}
module @g_pool_grad {
  func.func public @main(%x0: tensor<24xf32>, %x1: tensor<12xf32>) -> (tensor<24xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<1x3x4x2xf32>
    %1 = stablehlo.reshape %x1 : (tensor<12xf32>) -> tensor<1x2x3x2xf32>
    %2 = stablehlo.iota dim = 1 : tensor<1x2x3x2xi32>
    %3 = stablehlo.iota dim = 2 : tensor<1x2x3x2xi32>
    %4 = stablehlo.slice %0 [0:1, 0:2, 0:3, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %5 = stablehlo.constant dense<1> : tensor<1x2x3x2xi32>
    %6 = stablehlo.multiply %2, %5 : tensor<1x2x3x2xi32>
    %7 = stablehlo.constant dense<0> : tensor<1x2x3x2xi32>
    %8 = stablehlo.add %6, %7 : tensor<1x2x3x2xi32>
    %9 = stablehlo.constant dense<4> : tensor<1x2x3x2xi32>
    %10 = stablehlo.multiply %8, %9 : tensor<1x2x3x2xi32>
    %11 = stablehlo.multiply %3, %5 : tensor<1x2x3x2xi32>
    %12 = stablehlo.add %11, %7 : tensor<1x2x3x2xi32>
    %13 = stablehlo.add %10, %12 : tensor<1x2x3x2xi32>
    %14 = stablehlo.slice %0 [0:1, 0:2, 1:4, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %15 = stablehlo.compare GT, %14, %4, FLOAT : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xi1>
    %16 = stablehlo.select %15, %14, %4 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %17 = stablehlo.multiply %2, %5 : tensor<1x2x3x2xi32>
    %18 = stablehlo.add %17, %7 : tensor<1x2x3x2xi32>
    %19 = stablehlo.multiply %18, %9 : tensor<1x2x3x2xi32>
    %20 = stablehlo.multiply %3, %5 : tensor<1x2x3x2xi32>
    %21 = stablehlo.add %20, %5 : tensor<1x2x3x2xi32>
    %22 = stablehlo.add %19, %21 : tensor<1x2x3x2xi32>
    %23 = stablehlo.select %15, %22, %13 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xi32>
    %24 = stablehlo.slice %0 [0:1, 1:3, 0:3, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %25 = stablehlo.compare GT, %24, %16, FLOAT : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xi1>
    %26 = stablehlo.select %25, %24, %16 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %27 = stablehlo.multiply %2, %5 : tensor<1x2x3x2xi32>
    %28 = stablehlo.add %27, %5 : tensor<1x2x3x2xi32>
    %29 = stablehlo.multiply %28, %9 : tensor<1x2x3x2xi32>
    %30 = stablehlo.multiply %3, %5 : tensor<1x2x3x2xi32>
    %31 = stablehlo.add %30, %7 : tensor<1x2x3x2xi32>
    %32 = stablehlo.add %29, %31 : tensor<1x2x3x2xi32>
    %33 = stablehlo.select %25, %32, %23 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xi32>
    %34 = stablehlo.slice %0 [0:1, 1:3, 1:4, 0:2] : (tensor<1x3x4x2xf32>) -> tensor<1x2x3x2xf32>
    %35 = stablehlo.compare GT, %34, %26, FLOAT : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xi1>
    %36 = stablehlo.select %35, %34, %26 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %37 = stablehlo.multiply %2, %5 : tensor<1x2x3x2xi32>
    %38 = stablehlo.add %37, %5 : tensor<1x2x3x2xi32>
    %39 = stablehlo.multiply %38, %9 : tensor<1x2x3x2xi32>
    %40 = stablehlo.multiply %3, %5 : tensor<1x2x3x2xi32>
    %41 = stablehlo.add %40, %5 : tensor<1x2x3x2xi32>
    %42 = stablehlo.add %39, %41 : tensor<1x2x3x2xi32>
    %43 = stablehlo.select %35, %42, %33 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xi32>
    %44 = stablehlo.iota dim = 1 : tensor<1x2x3x2xi32>
    %45 = stablehlo.iota dim = 2 : tensor<1x2x3x2xi32>
    %46 = stablehlo.constant dense<0.0e+00> : tensor<1x2x3x2xf32>
    %47 = stablehlo.multiply %44, %5 : tensor<1x2x3x2xi32>
    %48 = stablehlo.add %47, %7 : tensor<1x2x3x2xi32>
    %49 = stablehlo.multiply %48, %9 : tensor<1x2x3x2xi32>
    %50 = stablehlo.multiply %45, %5 : tensor<1x2x3x2xi32>
    %51 = stablehlo.add %50, %7 : tensor<1x2x3x2xi32>
    %52 = stablehlo.add %49, %51 : tensor<1x2x3x2xi32>
    %53 = stablehlo.compare EQ, %43, %52, SIGNED : (tensor<1x2x3x2xi32>, tensor<1x2x3x2xi32>) -> tensor<1x2x3x2xi1>
    %54 = stablehlo.select %53, %1, %46 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %55 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %56 = stablehlo.pad %54, %55, low = [0, 0, 0, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0] : (tensor<1x2x3x2xf32>, tensor<f32>) -> tensor<1x3x4x2xf32>
    %57 = stablehlo.multiply %44, %5 : tensor<1x2x3x2xi32>
    %58 = stablehlo.add %57, %7 : tensor<1x2x3x2xi32>
    %59 = stablehlo.multiply %58, %9 : tensor<1x2x3x2xi32>
    %60 = stablehlo.multiply %45, %5 : tensor<1x2x3x2xi32>
    %61 = stablehlo.add %60, %5 : tensor<1x2x3x2xi32>
    %62 = stablehlo.add %59, %61 : tensor<1x2x3x2xi32>
    %63 = stablehlo.compare EQ, %43, %62, SIGNED : (tensor<1x2x3x2xi32>, tensor<1x2x3x2xi32>) -> tensor<1x2x3x2xi1>
    %64 = stablehlo.select %63, %1, %46 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %65 = stablehlo.pad %64, %55, low = [0, 0, 1, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x2x3x2xf32>, tensor<f32>) -> tensor<1x3x4x2xf32>
    %66 = stablehlo.add %56, %65 : tensor<1x3x4x2xf32>
    %67 = stablehlo.multiply %44, %5 : tensor<1x2x3x2xi32>
    %68 = stablehlo.add %67, %5 : tensor<1x2x3x2xi32>
    %69 = stablehlo.multiply %68, %9 : tensor<1x2x3x2xi32>
    %70 = stablehlo.multiply %45, %5 : tensor<1x2x3x2xi32>
    %71 = stablehlo.add %70, %7 : tensor<1x2x3x2xi32>
    %72 = stablehlo.add %69, %71 : tensor<1x2x3x2xi32>
    %73 = stablehlo.compare EQ, %43, %72, SIGNED : (tensor<1x2x3x2xi32>, tensor<1x2x3x2xi32>) -> tensor<1x2x3x2xi1>
    %74 = stablehlo.select %73, %1, %46 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %75 = stablehlo.pad %74, %55, low = [0, 1, 0, 0], high = [0, 0, 1, 0], interior = [0, 0, 0, 0] : (tensor<1x2x3x2xf32>, tensor<f32>) -> tensor<1x3x4x2xf32>
    %76 = stablehlo.add %66, %75 : tensor<1x3x4x2xf32>
    %77 = stablehlo.multiply %44, %5 : tensor<1x2x3x2xi32>
    %78 = stablehlo.add %77, %5 : tensor<1x2x3x2xi32>
    %79 = stablehlo.multiply %78, %9 : tensor<1x2x3x2xi32>
    %80 = stablehlo.multiply %45, %5 : tensor<1x2x3x2xi32>
    %81 = stablehlo.add %80, %5 : tensor<1x2x3x2xi32>
    %82 = stablehlo.add %79, %81 : tensor<1x2x3x2xi32>
    %83 = stablehlo.compare EQ, %43, %82, SIGNED : (tensor<1x2x3x2xi32>, tensor<1x2x3x2xi32>) -> tensor<1x2x3x2xi1>
    %84 = stablehlo.select %83, %1, %46 : tensor<1x2x3x2xi1>, tensor<1x2x3x2xf32>
    %85 = stablehlo.pad %84, %55, low = [0, 1, 1, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x2x3x2xf32>, tensor<f32>) -> tensor<1x3x4x2xf32>
    %86 = stablehlo.add %76, %85 : tensor<1x3x4x2xf32>
    %87 = stablehlo.reshape %86 : (tensor<1x3x4x2xf32>) -> tensor<24xf32>
    return %87 : tensor<24xf32>
  }
}
module @g_conv_grad_input {
  func.func public @main(%x0: tensor<60xf32>, %x1: tensor<54xf32>) -> (tensor<40xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<60xf32>) -> tensor<1x4x5x3xf32>
    %1 = stablehlo.reshape %x1 : (tensor<54xf32>) -> tensor<3x2x3x3xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x2x3x3xf32>) -> tensor<1x3x2x3x3xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 3, 4, 1] : (tensor<1x3x2x3x3xf32>) -> tensor<1x2x3x3x3xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x2x3x3x3xf32>) -> tensor<2x3x3x3xf32>
    %5 = stablehlo.reverse %4, dims = [1, 2] : tensor<2x3x3x3xf32>
    %6 = stablehlo.convolution(%0, %5) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x4x5x3xf32>, tensor<2x3x3x3xf32>) -> tensor<1x4x5x2xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x4x5x2xf32>) -> tensor<40xf32>
    return %7 : tensor<40xf32>
  }
}
module @g_conv_grad_weight {
  func.func public @main(%x0: tensor<40xf32>, %x1: tensor<60xf32>) -> (tensor<54xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<40xf32>) -> tensor<1x4x5x2xf32>
    %1 = stablehlo.reshape %x1 : (tensor<60xf32>) -> tensor<1x4x5x3xf32>
    %2 = stablehlo.convolution(%0, %1) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x4x5x2xf32>, tensor<1x4x5x3xf32>) -> tensor<2x3x3x3xf32>
    %3 = stablehlo.transpose %2, dims = [3, 0, 1, 2] : (tensor<2x3x3x3xf32>) -> tensor<3x2x3x3xf32>
    %4 = stablehlo.reshape %3 : (tensor<3x2x3x3xf32>) -> tensor<54xf32>
    return %4 : tensor<54xf32>
  }
}
module @g_reduce_sum {
  func.func public @main(%x0: tensor<24xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
module @g_reduce_mean {
  func.func public @main(%x0: tensor<24xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.constant dense<8.0e+00> : tensor<3xf32>
    %4 = stablehlo.divide %2, %3 : tensor<3xf32>
    return %4 : tensor<3xf32>
  }
}
module @g_reduce_max {
  func.func public @main(%x0: tensor<24xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
module @g_reduce_min {
  func.func public @main(%x0: tensor<24xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.minimum across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
module @g_argmax {
  func.func public @main(%x0: tensor<10xf32>) -> (tensor<2xi32>) {
    %0 = stablehlo.reshape %x0 : (tensor<10xf32>) -> tensor<2x5xf32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %3 = stablehlo.compare NE, %0, %0, FLOAT : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %4 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.reduce(%3 init: %4) applies stablehlo.or across dimensions = [1] : (tensor<2x5xi1>, tensor<i1>) -> tensor<2xi1>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xi1>) -> tensor<2x5xi1>
    %7 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %8 = stablehlo.compare EQ, %0, %7, FLOAT : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %9 = stablehlo.select %6, %3, %8 : tensor<2x5xi1>, tensor<2x5xi1>
    %10 = stablehlo.iota dim = 1 : tensor<2x5xi32>
    %11 = stablehlo.constant dense<5> : tensor<2x5xi32>
    %12 = stablehlo.select %9, %10, %11 : tensor<2x5xi1>, tensor<2x5xi32>
    %13 = stablehlo.constant dense<2147483647> : tensor<i32>
    %14 = stablehlo.reduce(%12 init: %13) applies stablehlo.minimum across dimensions = [1] : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    return %14 : tensor<2xi32>
  }
}
module @g_argmin {
  func.func public @main(%x0: tensor<10xf32>) -> (tensor<2xi32>) {
    %0 = stablehlo.reshape %x0 : (tensor<10xf32>) -> tensor<2x5xf32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %3 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %4 = stablehlo.reduce(%0 init: %3) applies stablehlo.minimum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %5 = stablehlo.compare NE, %0, %0, FLOAT : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %6 = stablehlo.constant dense<false> : tensor<i1>
    %7 = stablehlo.reduce(%5 init: %6) applies stablehlo.or across dimensions = [1] : (tensor<2x5xi1>, tensor<i1>) -> tensor<2xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<2xi1>) -> tensor<2x5xi1>
    %9 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %10 = stablehlo.compare EQ, %0, %9, FLOAT : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %11 = stablehlo.select %8, %5, %10 : tensor<2x5xi1>, tensor<2x5xi1>
    %12 = stablehlo.iota dim = 1 : tensor<2x5xi32>
    %13 = stablehlo.constant dense<5> : tensor<2x5xi32>
    %14 = stablehlo.select %11, %12, %13 : tensor<2x5xi1>, tensor<2x5xi32>
    %15 = stablehlo.constant dense<2147483647> : tensor<i32>
    %16 = stablehlo.reduce(%14 init: %15) applies stablehlo.minimum across dimensions = [1] : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    return %16 : tensor<2xi32>
  }
}
module @g_topk {
  func.func public @main(%x0: tensor<18xf32>) -> (tensor<6xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<18xf32>) -> tensor<3x6xf32>
    %1 = stablehlo.iota dim = 1 : tensor<3x6xi32>
    %2:2 = "stablehlo.sort"(%0, %1) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %p = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) : (tensor<3x6xf32>, tensor<3x6xi32>) -> (tensor<3x6xf32>, tensor<3x6xi32>)
    %3 = stablehlo.slice %2#0 [0:3, 0:2] : (tensor<3x6xf32>) -> tensor<3x2xf32>
    %4 = stablehlo.slice %2#1 [0:3, 0:2] : (tensor<3x6xi32>) -> tensor<3x2xi32>
    %5 = stablehlo.reshape %3 : (tensor<3x2xf32>) -> tensor<6xf32>
    return %5 : tensor<6xf32>
  }
}
module @g_cumsum {
  func.func public @main(%x0: tensor<42xf32>) -> (tensor<42xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<42xf32>) -> tensor<2x7x3xf32>
    %1 = stablehlo.slice %0 [0:2, 0:6, 0:3] : (tensor<2x7x3xf32>) -> tensor<2x6x3xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.pad %1, %2, low = [0, 1, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x6x3xf32>, tensor<f32>) -> tensor<2x7x3xf32>
    %4 = stablehlo.add %0, %3 : tensor<2x7x3xf32>
    %5 = stablehlo.slice %4 [0:2, 0:5, 0:3] : (tensor<2x7x3xf32>) -> tensor<2x5x3xf32>
    %6 = stablehlo.pad %5, %2, low = [0, 2, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x7x3xf32>
    %7 = stablehlo.add %4, %6 : tensor<2x7x3xf32>
    %8 = stablehlo.slice %7 [0:2, 0:3, 0:3] : (tensor<2x7x3xf32>) -> tensor<2x3x3xf32>
    %9 = stablehlo.pad %8, %2, low = [0, 4, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x7x3xf32>
    %10 = stablehlo.add %7, %9 : tensor<2x7x3xf32>
    %11 = stablehlo.slice %10 [0:2, 0:7, 1:3] : (tensor<2x7x3xf32>) -> tensor<2x7x2xf32>
    %12 = stablehlo.pad %11, %2, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x3xf32>
    %13 = stablehlo.add %10, %12 : tensor<2x7x3xf32>
    %14 = stablehlo.slice %13 [0:2, 0:7, 2:3] : (tensor<2x7x3xf32>) -> tensor<2x7x1xf32>
    %15 = stablehlo.pad %14, %2, low = [0, 0, 0], high = [0, 0, 2], interior = [0, 0, 0] : (tensor<2x7x1xf32>, tensor<f32>) -> tensor<2x7x3xf32>
    %16 = stablehlo.add %13, %15 : tensor<2x7x3xf32>
    %17 = stablehlo.reshape %16 : (tensor<2x7x3xf32>) -> tensor<42xf32>
    return %17 : tensor<42xf32>
  }
}
// block, {Half:invalid Exact:true FusedAttention:false}
module @g_block {
  func.func public @main(%x0: tensor<96xf32>, %x1: tensor<96xf32>, %w0: tensor<16xf32>, %w1: tensor<16xf32>, %w2: tensor<16x16xf32>, %w3: tensor<16xf32>, %w4: tensor<16xf32>, %w5: tensor<16xf32>, %w6: tensor<32x16xf32>, %w7: tensor<32xf32>, %w8: tensor<6x1x8xf32>, %w9: tensor<6x1x8xf32>, %w10: tensor<16x16xf32>, %w11: tensor<16xf32>, %w12: tensor<16xf32>, %w13: tensor<16xf32>, %w14: tensor<32x16xf32>, %w15: tensor<32xf32>, %w16: tensor<16x32xf32>, %w17: tensor<16xf32>) -> (tensor<96xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %1 = stablehlo.reshape %x1 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %4 = stablehlo.constant dense<6.25e-02> : tensor<1x6xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<1x6xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %7 = stablehlo.subtract %0, %6 : tensor<1x6x16xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<1x6x16xf32>
    %9 = stablehlo.reduce(%8 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %10 = stablehlo.multiply %9, %4 : tensor<1x6xf32>
    %11 = stablehlo.constant dense<1.0e-06> : tensor<1x6xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x6xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x6xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %15 = stablehlo.multiply %7, %14 : tensor<1x6x16xf32>
    %16 = stablehlo.broadcast_in_dim %w0, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<1x6x16xf32>
    %18 = stablehlo.broadcast_in_dim %w1, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %19 = stablehlo.add %17, %18 : tensor<1x6x16xf32>
    %20 = stablehlo.dot_general %19, %w2, contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x6x16xf32>, tensor<16x16xf32>) -> tensor<1x6x16xf32>
    %21 = stablehlo.broadcast_in_dim %w3, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %22 = stablehlo.add %20, %21 : tensor<1x6x16xf32>
    %23 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %24 = stablehlo.multiply %23, %4 : tensor<1x6xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %26 = stablehlo.subtract %1, %25 : tensor<1x6x16xf32>
    %27 = stablehlo.multiply %26, %26 : tensor<1x6x16xf32>
    %28 = stablehlo.reduce(%27 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %29 = stablehlo.multiply %28, %4 : tensor<1x6xf32>
    %30 = stablehlo.add %29, %11 : tensor<1x6xf32>
    %31 = stablehlo.rsqrt %30 : tensor<1x6xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %33 = stablehlo.multiply %26, %32 : tensor<1x6x16xf32>
    %34 = stablehlo.broadcast_in_dim %w4, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %35 = stablehlo.multiply %33, %34 : tensor<1x6x16xf32>
    %36 = stablehlo.broadcast_in_dim %w5, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %37 = stablehlo.add %35, %36 : tensor<1x6x16xf32>
    %38 = stablehlo.dot_general %37, %w6, contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x6x16xf32>, tensor<32x16xf32>) -> tensor<1x6x32xf32>
    %39 = stablehlo.broadcast_in_dim %w7, dims = [2] : (tensor<32xf32>) -> tensor<1x6x32xf32>
    %40 = stablehlo.add %38, %39 : tensor<1x6x32xf32>
    %41 = stablehlo.slice %40 [0:1, 0:6, 0:16] : (tensor<1x6x32xf32>) -> tensor<1x6x16xf32>
    %42 = stablehlo.slice %40 [0:1, 0:6, 16:32] : (tensor<1x6x32xf32>) -> tensor<1x6x16xf32>
    %43 = stablehlo.reshape %22 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %44 = stablehlo.slice %43 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %45 = stablehlo.slice %43 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %46 = stablehlo.slice %43 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %47 = stablehlo.slice %43 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %48 = stablehlo.concatenate %44, %45, %46, %47, dim = 3 : (tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>) -> tensor<1x6x2x8xf32>
    %49 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %50 = stablehlo.multiply %43, %49 : tensor<1x6x2x8xf32>
    %51 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %52 = stablehlo.multiply %48, %51 : tensor<1x6x2x8xf32>
    %53 = stablehlo.add %50, %52 : tensor<1x6x2x8xf32>
    %54 = stablehlo.reshape %41 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %55 = stablehlo.slice %54 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %56 = stablehlo.slice %54 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %57 = stablehlo.slice %54 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %58 = stablehlo.slice %54 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %59 = stablehlo.concatenate %55, %56, %57, %58, dim = 3 : (tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>) -> tensor<1x6x2x8xf32>
    %60 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %61 = stablehlo.multiply %54, %60 : tensor<1x6x2x8xf32>
    %62 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %63 = stablehlo.multiply %59, %62 : tensor<1x6x2x8xf32>
    %64 = stablehlo.add %61, %63 : tensor<1x6x2x8xf32>
    %65 = stablehlo.reshape %42 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %66 = stablehlo.dot_general %53, %64, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [HIGHEST, HIGHEST] : (tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>) -> tensor<1x2x6x6xf32>
    %67 = stablehlo.constant dense<2.5e-01> : tensor<1x2x6x6xf32>
    %68 = stablehlo.multiply %66, %67 : tensor<1x2x6x6xf32>
    %69 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %70 = stablehlo.reduce(%68 init: %69) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2] : (tensor<1x2x6xf32>) -> tensor<1x2x6x6xf32>
    %72 = stablehlo.subtract %68, %71 : tensor<1x2x6x6xf32>
    %73 = stablehlo.exponential %72 : tensor<1x2x6x6xf32>
    %74 = stablehlo.reduce(%73 init: %2) applies stablehlo.add across dimensions = [3] : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x2x6xf32>) -> tensor<1x2x6x6xf32>
    %76 = stablehlo.divide %73, %75 : tensor<1x2x6x6xf32>
    %77 = stablehlo.dot_general %76, %65, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x2x6x6xf32>, tensor<1x6x2x8xf32>) -> tensor<1x2x6x8xf32>
    %78 = stablehlo.transpose %77, dims = [0, 2, 1, 3] : (tensor<1x2x6x8xf32>) -> tensor<1x6x2x8xf32>
    %79 = stablehlo.reshape %78 : (tensor<1x6x2x8xf32>) -> tensor<1x6x16xf32>
    %80 = stablehlo.dot_general %79, %w10, contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x6x16xf32>, tensor<16x16xf32>) -> tensor<1x6x16xf32>
    %81 = stablehlo.broadcast_in_dim %w11, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %82 = stablehlo.add %80, %81 : tensor<1x6x16xf32>
    %83 = stablehlo.add %82, %0 : tensor<1x6x16xf32>
    %84 = stablehlo.reduce(%83 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %85 = stablehlo.multiply %84, %4 : tensor<1x6xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %87 = stablehlo.subtract %83, %86 : tensor<1x6x16xf32>
    %88 = stablehlo.multiply %87, %87 : tensor<1x6x16xf32>
    %89 = stablehlo.reduce(%88 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %90 = stablehlo.multiply %89, %4 : tensor<1x6xf32>
    %91 = stablehlo.add %90, %11 : tensor<1x6xf32>
    %92 = stablehlo.rsqrt %91 : tensor<1x6xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %94 = stablehlo.multiply %87, %93 : tensor<1x6x16xf32>
    %95 = stablehlo.broadcast_in_dim %w12, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %96 = stablehlo.multiply %94, %95 : tensor<1x6x16xf32>
    %97 = stablehlo.broadcast_in_dim %w13, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %98 = stablehlo.add %96, %97 : tensor<1x6x16xf32>
    %99 = stablehlo.dot_general %98, %w14, contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x6x16xf32>, tensor<32x16xf32>) -> tensor<1x6x32xf32>
    %100 = stablehlo.broadcast_in_dim %w15, dims = [2] : (tensor<32xf32>) -> tensor<1x6x32xf32>
    %101 = stablehlo.add %99, %100 : tensor<1x6x32xf32>
    %102 = stablehlo.constant dense<7.0710677e-01> : tensor<1x6x32xf32>
    %103 = stablehlo.multiply %101, %102 : tensor<1x6x32xf32>
    %104 = chlo.erf %103 : tensor<1x6x32xf32> -> tensor<1x6x32xf32>
    %105 = stablehlo.constant dense<5.0e-01> : tensor<1x6x32xf32>
    %106 = stablehlo.multiply %101, %105 : tensor<1x6x32xf32>
    %107 = stablehlo.constant dense<1.0e+00> : tensor<1x6x32xf32>
    %108 = stablehlo.add %104, %107 : tensor<1x6x32xf32>
    %109 = stablehlo.multiply %106, %108 : tensor<1x6x32xf32>
    %110 = stablehlo.dot_general %109, %w16, contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x6x32xf32>, tensor<16x32xf32>) -> tensor<1x6x16xf32>
    %111 = stablehlo.broadcast_in_dim %w17, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %112 = stablehlo.add %110, %111 : tensor<1x6x16xf32>
    %113 = stablehlo.add %112, %83 : tensor<1x6x16xf32>
    %114 = stablehlo.reshape %113 : (tensor<1x6x16xf32>) -> tensor<96xf32>
    return %114 : tensor<96xf32>
  }
}
// w0: norm1.weight as f32[16], dimensions []
// w1: norm1.bias as f32[16], dimensions []
// w2: q.weight as f32[16,16], dimensions []
// w3: q.bias as f32[16], dimensions []
// w4: norm2.weight as f32[16], dimensions []
// w5: norm2.bias as f32[16], dimensions []
// w6: projk.weight + projv.weight as f32[32,16], dimensions []
// w7: projk.bias + projv.bias as f32[32], dimensions []
// w8: table of 48 as f32[6,1,8], dimensions []
// w9: table of 48 as f32[6,1,8], dimensions []
// w10: proj.weight as f32[16,16], dimensions []
// w11: proj.bias as f32[16], dimensions []
// w12: norm3.weight as f32[16], dimensions []
// w13: norm3.bias as f32[16], dimensions []
// w14: fc1.weight as f32[32,16], dimensions []
// w15: fc1.bias as f32[32], dimensions []
// w16: fc2.weight as f32[16,32], dimensions []
// w17: fc2.bias as f32[16], dimensions []
// block, {Half:invalid Exact:false FusedAttention:false}
module @g_block {
  func.func public @main(%x0: tensor<96xf32>, %x1: tensor<96xf32>, %w0: tensor<16xf32>, %w1: tensor<16xf32>, %w2: tensor<16x16xf32>, %w3: tensor<16xf32>, %w4: tensor<16xf32>, %w5: tensor<16xf32>, %w6: tensor<32x16xf32>, %w7: tensor<32xf32>, %w8: tensor<6x1x8xf32>, %w9: tensor<6x1x8xf32>, %w10: tensor<16x16xf32>, %w11: tensor<16xf32>, %w12: tensor<16xf32>, %w13: tensor<16xf32>, %w14: tensor<32x16xf32>, %w15: tensor<32xf32>, %w16: tensor<16x32xf32>, %w17: tensor<16xf32>) -> (tensor<96xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %1 = stablehlo.reshape %x1 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %4 = stablehlo.constant dense<6.25e-02> : tensor<1x6xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<1x6xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %7 = stablehlo.subtract %0, %6 : tensor<1x6x16xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<1x6x16xf32>
    %9 = stablehlo.reduce(%8 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %10 = stablehlo.multiply %9, %4 : tensor<1x6xf32>
    %11 = stablehlo.constant dense<1.0e-06> : tensor<1x6xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x6xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x6xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %15 = stablehlo.multiply %7, %14 : tensor<1x6x16xf32>
    %16 = stablehlo.broadcast_in_dim %w0, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<1x6x16xf32>
    %18 = stablehlo.broadcast_in_dim %w1, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %19 = stablehlo.add %17, %18 : tensor<1x6x16xf32>
    %20 = stablehlo.reduce_precision %19, format = e8m10 : tensor<1x6x16xf32>
    %21 = stablehlo.dot_general %20, %w2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf32>, tensor<16x16xf32>) -> tensor<1x6x16xf32>
    %22 = stablehlo.broadcast_in_dim %w3, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %23 = stablehlo.add %21, %22 : tensor<1x6x16xf32>
    %24 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %25 = stablehlo.multiply %24, %4 : tensor<1x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %27 = stablehlo.subtract %1, %26 : tensor<1x6x16xf32>
    %28 = stablehlo.multiply %27, %27 : tensor<1x6x16xf32>
    %29 = stablehlo.reduce(%28 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %30 = stablehlo.multiply %29, %4 : tensor<1x6xf32>
    %31 = stablehlo.add %30, %11 : tensor<1x6xf32>
    %32 = stablehlo.rsqrt %31 : tensor<1x6xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %34 = stablehlo.multiply %27, %33 : tensor<1x6x16xf32>
    %35 = stablehlo.broadcast_in_dim %w4, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<1x6x16xf32>
    %37 = stablehlo.broadcast_in_dim %w5, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %38 = stablehlo.add %36, %37 : tensor<1x6x16xf32>
    %39 = stablehlo.reduce_precision %38, format = e8m10 : tensor<1x6x16xf32>
    %40 = stablehlo.dot_general %39, %w6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf32>, tensor<32x16xf32>) -> tensor<1x6x32xf32>
    %41 = stablehlo.broadcast_in_dim %w7, dims = [2] : (tensor<32xf32>) -> tensor<1x6x32xf32>
    %42 = stablehlo.add %40, %41 : tensor<1x6x32xf32>
    %43 = stablehlo.slice %42 [0:1, 0:6, 0:16] : (tensor<1x6x32xf32>) -> tensor<1x6x16xf32>
    %44 = stablehlo.slice %42 [0:1, 0:6, 16:32] : (tensor<1x6x32xf32>) -> tensor<1x6x16xf32>
    %45 = stablehlo.reshape %23 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %46 = stablehlo.slice %45 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %47 = stablehlo.slice %45 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %48 = stablehlo.slice %45 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %49 = stablehlo.slice %45 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %50 = stablehlo.concatenate %46, %47, %48, %49, dim = 3 : (tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>) -> tensor<1x6x2x8xf32>
    %51 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %52 = stablehlo.multiply %45, %51 : tensor<1x6x2x8xf32>
    %53 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %54 = stablehlo.multiply %50, %53 : tensor<1x6x2x8xf32>
    %55 = stablehlo.add %52, %54 : tensor<1x6x2x8xf32>
    %56 = stablehlo.reduce_precision %55, format = e8m10 : tensor<1x6x2x8xf32>
    %57 = stablehlo.reshape %43 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %58 = stablehlo.slice %57 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %59 = stablehlo.slice %57 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %60 = stablehlo.slice %57 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %61 = stablehlo.slice %57 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x2xf32>
    %62 = stablehlo.concatenate %58, %59, %60, %61, dim = 3 : (tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>, tensor<1x6x2x2xf32>) -> tensor<1x6x2x8xf32>
    %63 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %64 = stablehlo.multiply %57, %63 : tensor<1x6x2x8xf32>
    %65 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %66 = stablehlo.multiply %62, %65 : tensor<1x6x2x8xf32>
    %67 = stablehlo.add %64, %66 : tensor<1x6x2x8xf32>
    %68 = stablehlo.reduce_precision %67, format = e8m10 : tensor<1x6x2x8xf32>
    %69 = stablehlo.reshape %44 : (tensor<1x6x16xf32>) -> tensor<1x6x2x8xf32>
    %70 = stablehlo.reduce_precision %69, format = e8m10 : tensor<1x6x2x8xf32>
    %71 = stablehlo.dot_general %56, %68, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>) -> tensor<1x2x6x6xf32>
    %72 = stablehlo.constant dense<2.5e-01> : tensor<1x2x6x6xf32>
    %73 = stablehlo.multiply %71, %72 : tensor<1x2x6x6xf32>
    %74 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %75 = stablehlo.reduce(%73 init: %74) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2] : (tensor<1x2x6xf32>) -> tensor<1x2x6x6xf32>
    %77 = stablehlo.subtract %73, %76 : tensor<1x2x6x6xf32>
    %78 = stablehlo.exponential %77 : tensor<1x2x6x6xf32>
    %79 = stablehlo.reduce(%78 init: %2) applies stablehlo.add across dimensions = [3] : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<1x2x6xf32>) -> tensor<1x2x6x6xf32>
    %81 = stablehlo.divide %78, %80 : tensor<1x2x6x6xf32>
    %82 = stablehlo.reduce_precision %81, format = e8m10 : tensor<1x2x6x6xf32>
    %83 = stablehlo.dot_general %82, %70, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x2x6x6xf32>, tensor<1x6x2x8xf32>) -> tensor<1x2x6x8xf32>
    %84 = stablehlo.transpose %83, dims = [0, 2, 1, 3] : (tensor<1x2x6x8xf32>) -> tensor<1x6x2x8xf32>
    %85 = stablehlo.reshape %84 : (tensor<1x6x2x8xf32>) -> tensor<1x6x16xf32>
    %86 = stablehlo.reduce_precision %85, format = e8m10 : tensor<1x6x16xf32>
    %87 = stablehlo.dot_general %86, %w10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf32>, tensor<16x16xf32>) -> tensor<1x6x16xf32>
    %88 = stablehlo.broadcast_in_dim %w11, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %89 = stablehlo.add %87, %88 : tensor<1x6x16xf32>
    %90 = stablehlo.add %89, %0 : tensor<1x6x16xf32>
    %91 = stablehlo.reduce(%90 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %92 = stablehlo.multiply %91, %4 : tensor<1x6xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %94 = stablehlo.subtract %90, %93 : tensor<1x6x16xf32>
    %95 = stablehlo.multiply %94, %94 : tensor<1x6x16xf32>
    %96 = stablehlo.reduce(%95 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %97 = stablehlo.multiply %96, %4 : tensor<1x6xf32>
    %98 = stablehlo.add %97, %11 : tensor<1x6xf32>
    %99 = stablehlo.rsqrt %98 : tensor<1x6xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %101 = stablehlo.multiply %94, %100 : tensor<1x6x16xf32>
    %102 = stablehlo.broadcast_in_dim %w12, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %103 = stablehlo.multiply %101, %102 : tensor<1x6x16xf32>
    %104 = stablehlo.broadcast_in_dim %w13, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %105 = stablehlo.add %103, %104 : tensor<1x6x16xf32>
    %106 = stablehlo.reduce_precision %105, format = e8m10 : tensor<1x6x16xf32>
    %107 = stablehlo.dot_general %106, %w14, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf32>, tensor<32x16xf32>) -> tensor<1x6x32xf32>
    %108 = stablehlo.broadcast_in_dim %w15, dims = [2] : (tensor<32xf32>) -> tensor<1x6x32xf32>
    %109 = stablehlo.add %107, %108 : tensor<1x6x32xf32>
    %110 = stablehlo.constant dense<7.0710677e-01> : tensor<1x6x32xf32>
    %111 = stablehlo.multiply %109, %110 : tensor<1x6x32xf32>
    %112 = chlo.erf %111 : tensor<1x6x32xf32> -> tensor<1x6x32xf32>
    %113 = stablehlo.constant dense<5.0e-01> : tensor<1x6x32xf32>
    %114 = stablehlo.multiply %109, %113 : tensor<1x6x32xf32>
    %115 = stablehlo.constant dense<1.0e+00> : tensor<1x6x32xf32>
    %116 = stablehlo.add %112, %115 : tensor<1x6x32xf32>
    %117 = stablehlo.multiply %114, %116 : tensor<1x6x32xf32>
    %118 = stablehlo.reduce_precision %117, format = e8m10 : tensor<1x6x32xf32>
    %119 = stablehlo.dot_general %118, %w16, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x32xf32>, tensor<16x32xf32>) -> tensor<1x6x16xf32>
    %120 = stablehlo.broadcast_in_dim %w17, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %121 = stablehlo.add %119, %120 : tensor<1x6x16xf32>
    %122 = stablehlo.add %121, %90 : tensor<1x6x16xf32>
    %123 = stablehlo.reshape %122 : (tensor<1x6x16xf32>) -> tensor<96xf32>
    return %123 : tensor<96xf32>
  }
}
// w0: norm1.weight as f32[16], dimensions []
// w1: norm1.bias as f32[16], dimensions []
// w2: q.weight as f32[16,16], dimensions []
// w3: q.bias as f32[16], dimensions []
// w4: norm2.weight as f32[16], dimensions []
// w5: norm2.bias as f32[16], dimensions []
// w6: projk.weight + projv.weight as f32[32,16], dimensions []
// w7: projk.bias + projv.bias as f32[32], dimensions []
// w8: table of 48 as f32[6,1,8], dimensions []
// w9: table of 48 as f32[6,1,8], dimensions []
// w10: proj.weight as f32[16,16], dimensions []
// w11: proj.bias as f32[16], dimensions []
// w12: norm3.weight as f32[16], dimensions []
// w13: norm3.bias as f32[16], dimensions []
// w14: fc1.weight as f32[32,16], dimensions []
// w15: fc1.bias as f32[32], dimensions []
// w16: fc2.weight as f32[16,32], dimensions []
// w17: fc2.bias as f32[16], dimensions []
// block, {Half:bf16 Exact:false FusedAttention:false}
module @g_block {
  func.func public @main(%x0: tensor<96xf32>, %x1: tensor<96xf32>, %w0: tensor<16xf32>, %w1: tensor<16xf32>, %w2: tensor<16x16xbf16>, %w3: tensor<16xbf16>, %w4: tensor<16xf32>, %w5: tensor<16xf32>, %w6: tensor<32x16xbf16>, %w7: tensor<32xbf16>, %w8: tensor<6x1x8xf32>, %w9: tensor<6x1x8xf32>, %w10: tensor<16x16xbf16>, %w11: tensor<16xbf16>, %w12: tensor<16xf32>, %w13: tensor<16xf32>, %w14: tensor<32x16xbf16>, %w15: tensor<32xbf16>, %w16: tensor<16x32xbf16>, %w17: tensor<16xf32>) -> (tensor<96xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %1 = stablehlo.reshape %x1 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %4 = stablehlo.constant dense<6.25e-02> : tensor<1x6xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<1x6xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %7 = stablehlo.subtract %0, %6 : tensor<1x6x16xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<1x6x16xf32>
    %9 = stablehlo.reduce(%8 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %10 = stablehlo.multiply %9, %4 : tensor<1x6xf32>
    %11 = stablehlo.constant dense<1.0e-06> : tensor<1x6xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x6xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x6xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %15 = stablehlo.multiply %7, %14 : tensor<1x6x16xf32>
    %16 = stablehlo.broadcast_in_dim %w0, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<1x6x16xf32>
    %18 = stablehlo.broadcast_in_dim %w1, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %19 = stablehlo.add %17, %18 : tensor<1x6x16xf32>
    %20 = stablehlo.convert %19 : (tensor<1x6x16xf32>) -> tensor<1x6x16xbf16>
    %21 = stablehlo.dot_general %20, %w2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xbf16>, tensor<16x16xbf16>) -> tensor<1x6x16xbf16>
    %22 = stablehlo.broadcast_in_dim %w3, dims = [2] : (tensor<16xbf16>) -> tensor<1x6x16xbf16>
    %23 = stablehlo.add %21, %22 : tensor<1x6x16xbf16>
    %24 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %25 = stablehlo.multiply %24, %4 : tensor<1x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %27 = stablehlo.subtract %1, %26 : tensor<1x6x16xf32>
    %28 = stablehlo.multiply %27, %27 : tensor<1x6x16xf32>
    %29 = stablehlo.reduce(%28 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %30 = stablehlo.multiply %29, %4 : tensor<1x6xf32>
    %31 = stablehlo.add %30, %11 : tensor<1x6xf32>
    %32 = stablehlo.rsqrt %31 : tensor<1x6xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %34 = stablehlo.multiply %27, %33 : tensor<1x6x16xf32>
    %35 = stablehlo.broadcast_in_dim %w4, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<1x6x16xf32>
    %37 = stablehlo.broadcast_in_dim %w5, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %38 = stablehlo.add %36, %37 : tensor<1x6x16xf32>
    %39 = stablehlo.convert %38 : (tensor<1x6x16xf32>) -> tensor<1x6x16xbf16>
    %40 = stablehlo.dot_general %39, %w6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xbf16>, tensor<32x16xbf16>) -> tensor<1x6x32xbf16>
    %41 = stablehlo.broadcast_in_dim %w7, dims = [2] : (tensor<32xbf16>) -> tensor<1x6x32xbf16>
    %42 = stablehlo.add %40, %41 : tensor<1x6x32xbf16>
    %43 = stablehlo.slice %42 [0:1, 0:6, 0:16] : (tensor<1x6x32xbf16>) -> tensor<1x6x16xbf16>
    %44 = stablehlo.slice %42 [0:1, 0:6, 16:32] : (tensor<1x6x32xbf16>) -> tensor<1x6x16xbf16>
    %45 = stablehlo.reshape %23 : (tensor<1x6x16xbf16>) -> tensor<1x6x2x8xbf16>
    %46 = stablehlo.slice %45 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %47 = stablehlo.slice %45 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %48 = stablehlo.slice %45 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %49 = stablehlo.slice %45 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %50 = stablehlo.concatenate %46, %47, %48, %49, dim = 3 : (tensor<1x6x2x2xbf16>, tensor<1x6x2x2xbf16>, tensor<1x6x2x2xbf16>, tensor<1x6x2x2xbf16>) -> tensor<1x6x2x8xbf16>
    %51 = stablehlo.convert %45 : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x8xf32>
    %52 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %53 = stablehlo.multiply %51, %52 : tensor<1x6x2x8xf32>
    %54 = stablehlo.convert %50 : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x8xf32>
    %55 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %56 = stablehlo.multiply %54, %55 : tensor<1x6x2x8xf32>
    %57 = stablehlo.add %53, %56 : tensor<1x6x2x8xf32>
    %58 = stablehlo.convert %57 : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x8xbf16>
    %59 = stablehlo.reshape %43 : (tensor<1x6x16xbf16>) -> tensor<1x6x2x8xbf16>
    %60 = stablehlo.slice %59 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %61 = stablehlo.slice %59 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %62 = stablehlo.slice %59 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %63 = stablehlo.slice %59 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x2xbf16>
    %64 = stablehlo.concatenate %60, %61, %62, %63, dim = 3 : (tensor<1x6x2x2xbf16>, tensor<1x6x2x2xbf16>, tensor<1x6x2x2xbf16>, tensor<1x6x2x2xbf16>) -> tensor<1x6x2x8xbf16>
    %65 = stablehlo.convert %59 : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x8xf32>
    %66 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %67 = stablehlo.multiply %65, %66 : tensor<1x6x2x8xf32>
    %68 = stablehlo.convert %64 : (tensor<1x6x2x8xbf16>) -> tensor<1x6x2x8xf32>
    %69 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %70 = stablehlo.multiply %68, %69 : tensor<1x6x2x8xf32>
    %71 = stablehlo.add %67, %70 : tensor<1x6x2x8xf32>
    %72 = stablehlo.convert %71 : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x8xbf16>
    %73 = stablehlo.reshape %44 : (tensor<1x6x16xbf16>) -> tensor<1x6x2x8xbf16>
    %74 = stablehlo.dot_general %58, %72, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x6x2x8xbf16>, tensor<1x6x2x8xbf16>) -> tensor<1x2x6x6xf32>
    %75 = stablehlo.constant dense<2.5e-01> : tensor<1x2x6x6xf32>
    %76 = stablehlo.multiply %74, %75 : tensor<1x2x6x6xf32>
    %77 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %78 = stablehlo.reduce(%76 init: %77) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x2x6xf32>) -> tensor<1x2x6x6xf32>
    %80 = stablehlo.subtract %76, %79 : tensor<1x2x6x6xf32>
    %81 = stablehlo.exponential %80 : tensor<1x2x6x6xf32>
    %82 = stablehlo.reduce(%81 init: %2) applies stablehlo.add across dimensions = [3] : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x2x6xf32>) -> tensor<1x2x6x6xf32>
    %84 = stablehlo.divide %81, %83 : tensor<1x2x6x6xf32>
    %85 = stablehlo.convert %84 : (tensor<1x2x6x6xf32>) -> tensor<1x2x6x6xbf16>
    %86 = stablehlo.dot_general %85, %73, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x2x6x6xbf16>, tensor<1x6x2x8xbf16>) -> tensor<1x2x6x8xbf16>
    %87 = stablehlo.transpose %86, dims = [0, 2, 1, 3] : (tensor<1x2x6x8xbf16>) -> tensor<1x6x2x8xbf16>
    %88 = stablehlo.reshape %87 : (tensor<1x6x2x8xbf16>) -> tensor<1x6x16xbf16>
    %89 = stablehlo.dot_general %88, %w10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xbf16>, tensor<16x16xbf16>) -> tensor<1x6x16xbf16>
    %90 = stablehlo.broadcast_in_dim %w11, dims = [2] : (tensor<16xbf16>) -> tensor<1x6x16xbf16>
    %91 = stablehlo.add %89, %90 : tensor<1x6x16xbf16>
    %92 = stablehlo.convert %0 : (tensor<1x6x16xf32>) -> tensor<1x6x16xbf16>
    %93 = stablehlo.add %91, %92 : tensor<1x6x16xbf16>
    %94 = stablehlo.convert %93 : (tensor<1x6x16xbf16>) -> tensor<1x6x16xf32>
    %95 = stablehlo.reduce(%94 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %96 = stablehlo.multiply %95, %4 : tensor<1x6xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %98 = stablehlo.subtract %94, %97 : tensor<1x6x16xf32>
    %99 = stablehlo.multiply %98, %98 : tensor<1x6x16xf32>
    %100 = stablehlo.reduce(%99 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %101 = stablehlo.multiply %100, %4 : tensor<1x6xf32>
    %102 = stablehlo.add %101, %11 : tensor<1x6xf32>
    %103 = stablehlo.rsqrt %102 : tensor<1x6xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %105 = stablehlo.multiply %98, %104 : tensor<1x6x16xf32>
    %106 = stablehlo.broadcast_in_dim %w12, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %107 = stablehlo.multiply %105, %106 : tensor<1x6x16xf32>
    %108 = stablehlo.broadcast_in_dim %w13, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %109 = stablehlo.add %107, %108 : tensor<1x6x16xf32>
    %110 = stablehlo.convert %109 : (tensor<1x6x16xf32>) -> tensor<1x6x16xbf16>
    %111 = stablehlo.dot_general %110, %w14, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xbf16>, tensor<32x16xbf16>) -> tensor<1x6x32xbf16>
    %112 = stablehlo.broadcast_in_dim %w15, dims = [2] : (tensor<32xbf16>) -> tensor<1x6x32xbf16>
    %113 = stablehlo.add %111, %112 : tensor<1x6x32xbf16>
    %114 = stablehlo.convert %113 : (tensor<1x6x32xbf16>) -> tensor<1x6x32xf32>
    %115 = stablehlo.constant dense<7.0710677e-01> : tensor<1x6x32xf32>
    %116 = stablehlo.multiply %114, %115 : tensor<1x6x32xf32>
    %117 = chlo.erf %116 : tensor<1x6x32xf32> -> tensor<1x6x32xf32>
    %118 = stablehlo.constant dense<5.0e-01> : tensor<1x6x32xf32>
    %119 = stablehlo.multiply %114, %118 : tensor<1x6x32xf32>
    %120 = stablehlo.constant dense<1.0e+00> : tensor<1x6x32xf32>
    %121 = stablehlo.add %117, %120 : tensor<1x6x32xf32>
    %122 = stablehlo.multiply %119, %121 : tensor<1x6x32xf32>
    %123 = stablehlo.convert %122 : (tensor<1x6x32xf32>) -> tensor<1x6x32xbf16>
    %124 = stablehlo.dot_general %123, %w16, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x32xbf16>, tensor<16x32xbf16>) -> tensor<1x6x16xf32>
    %125 = stablehlo.broadcast_in_dim %w17, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %126 = stablehlo.add %124, %125 : tensor<1x6x16xf32>
    %127 = stablehlo.add %126, %94 : tensor<1x6x16xf32>
    %128 = stablehlo.reshape %127 : (tensor<1x6x16xf32>) -> tensor<96xf32>
    return %128 : tensor<96xf32>
  }
}
// w0: norm1.weight as f32[16], dimensions []
// w1: norm1.bias as f32[16], dimensions []
// w2: q.weight as bf16[16,16], dimensions []
// w3: q.bias as bf16[16], dimensions []
// w4: norm2.weight as f32[16], dimensions []
// w5: norm2.bias as f32[16], dimensions []
// w6: projk.weight + projv.weight as bf16[32,16], dimensions []
// w7: projk.bias + projv.bias as bf16[32], dimensions []
// w8: table of 48 as f32[6,1,8], dimensions []
// w9: table of 48 as f32[6,1,8], dimensions []
// w10: proj.weight as bf16[16,16], dimensions []
// w11: proj.bias as bf16[16], dimensions []
// w12: norm3.weight as f32[16], dimensions []
// w13: norm3.bias as f32[16], dimensions []
// w14: fc1.weight as bf16[32,16], dimensions []
// w15: fc1.bias as bf16[32], dimensions []
// w16: fc2.weight as bf16[16,32], dimensions []
// w17: fc2.bias as f32[16], dimensions []
// block, {Half:f16 Exact:false FusedAttention:true}
module @g_block {
  func.func public @main(%x0: tensor<96xf32>, %x1: tensor<96xf32>, %w0: tensor<16xf32>, %w1: tensor<16xf32>, %w2: tensor<16x16xf16>, %w3: tensor<16xf16>, %w4: tensor<16xf32>, %w5: tensor<16xf32>, %w6: tensor<32x16xf16>, %w7: tensor<32xf16>, %w8: tensor<6x1x8xf32>, %w9: tensor<6x1x8xf32>, %w10: tensor<16x16xf16>, %w11: tensor<16xf16>, %w12: tensor<16xf32>, %w13: tensor<16xf32>, %w14: tensor<32x16xf16>, %w15: tensor<32xf16>, %w16: tensor<16x32xf16>, %w17: tensor<16xf32>) -> (tensor<96xf32>) {
    %0 = stablehlo.reshape %x0 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %1 = stablehlo.reshape %x1 : (tensor<96xf32>) -> tensor<1x6x16xf32>
    %2 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %4 = stablehlo.constant dense<6.25e-02> : tensor<1x6xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<1x6xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %7 = stablehlo.subtract %0, %6 : tensor<1x6x16xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<1x6x16xf32>
    %9 = stablehlo.reduce(%8 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %10 = stablehlo.multiply %9, %4 : tensor<1x6xf32>
    %11 = stablehlo.constant dense<1.0e-06> : tensor<1x6xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x6xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x6xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %15 = stablehlo.multiply %7, %14 : tensor<1x6x16xf32>
    %16 = stablehlo.broadcast_in_dim %w0, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<1x6x16xf32>
    %18 = stablehlo.broadcast_in_dim %w1, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %19 = stablehlo.add %17, %18 : tensor<1x6x16xf32>
    %20 = stablehlo.convert %19 : (tensor<1x6x16xf32>) -> tensor<1x6x16xf16>
    %21 = stablehlo.dot_general %20, %w2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf16>, tensor<16x16xf16>) -> tensor<1x6x16xf16>
    %22 = stablehlo.broadcast_in_dim %w3, dims = [2] : (tensor<16xf16>) -> tensor<1x6x16xf16>
    %23 = stablehlo.add %21, %22 : tensor<1x6x16xf16>
    %24 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %25 = stablehlo.multiply %24, %4 : tensor<1x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %27 = stablehlo.subtract %1, %26 : tensor<1x6x16xf32>
    %28 = stablehlo.multiply %27, %27 : tensor<1x6x16xf32>
    %29 = stablehlo.reduce(%28 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %30 = stablehlo.multiply %29, %4 : tensor<1x6xf32>
    %31 = stablehlo.add %30, %11 : tensor<1x6xf32>
    %32 = stablehlo.rsqrt %31 : tensor<1x6xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %34 = stablehlo.multiply %27, %33 : tensor<1x6x16xf32>
    %35 = stablehlo.broadcast_in_dim %w4, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<1x6x16xf32>
    %37 = stablehlo.broadcast_in_dim %w5, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %38 = stablehlo.add %36, %37 : tensor<1x6x16xf32>
    %39 = stablehlo.convert %38 : (tensor<1x6x16xf32>) -> tensor<1x6x16xf16>
    %40 = stablehlo.dot_general %39, %w6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf16>, tensor<32x16xf16>) -> tensor<1x6x32xf16>
    %41 = stablehlo.broadcast_in_dim %w7, dims = [2] : (tensor<32xf16>) -> tensor<1x6x32xf16>
    %42 = stablehlo.add %40, %41 : tensor<1x6x32xf16>
    %43 = stablehlo.slice %42 [0:1, 0:6, 0:16] : (tensor<1x6x32xf16>) -> tensor<1x6x16xf16>
    %44 = stablehlo.slice %42 [0:1, 0:6, 16:32] : (tensor<1x6x32xf16>) -> tensor<1x6x16xf16>
    %45 = stablehlo.reshape %23 : (tensor<1x6x16xf16>) -> tensor<1x6x2x8xf16>
    %46 = stablehlo.slice %45 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %47 = stablehlo.slice %45 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %48 = stablehlo.slice %45 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %49 = stablehlo.slice %45 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %50 = stablehlo.concatenate %46, %47, %48, %49, dim = 3 : (tensor<1x6x2x2xf16>, tensor<1x6x2x2xf16>, tensor<1x6x2x2xf16>, tensor<1x6x2x2xf16>) -> tensor<1x6x2x8xf16>
    %51 = stablehlo.convert %45 : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x8xf32>
    %52 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %53 = stablehlo.multiply %51, %52 : tensor<1x6x2x8xf32>
    %54 = stablehlo.convert %50 : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x8xf32>
    %55 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %56 = stablehlo.multiply %54, %55 : tensor<1x6x2x8xf32>
    %57 = stablehlo.add %53, %56 : tensor<1x6x2x8xf32>
    %58 = stablehlo.convert %57 : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x8xf16>
    %59 = stablehlo.reshape %43 : (tensor<1x6x16xf16>) -> tensor<1x6x2x8xf16>
    %60 = stablehlo.slice %59 [0:1, 0:6, 0:2, 2:4] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %61 = stablehlo.slice %59 [0:1, 0:6, 0:2, 0:2] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %62 = stablehlo.slice %59 [0:1, 0:6, 0:2, 6:8] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %63 = stablehlo.slice %59 [0:1, 0:6, 0:2, 4:6] : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x2xf16>
    %64 = stablehlo.concatenate %60, %61, %62, %63, dim = 3 : (tensor<1x6x2x2xf16>, tensor<1x6x2x2xf16>, tensor<1x6x2x2xf16>, tensor<1x6x2x2xf16>) -> tensor<1x6x2x8xf16>
    %65 = stablehlo.convert %59 : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x8xf32>
    %66 = stablehlo.broadcast_in_dim %w8, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %67 = stablehlo.multiply %65, %66 : tensor<1x6x2x8xf32>
    %68 = stablehlo.convert %64 : (tensor<1x6x2x8xf16>) -> tensor<1x6x2x8xf32>
    %69 = stablehlo.broadcast_in_dim %w9, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x2x8xf32>
    %70 = stablehlo.multiply %68, %69 : tensor<1x6x2x8xf32>
    %71 = stablehlo.add %67, %70 : tensor<1x6x2x8xf32>
    %72 = stablehlo.convert %71 : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x8xf16>
    %73 = stablehlo.reshape %44 : (tensor<1x6x16xf16>) -> tensor<1x6x2x8xf16>
    %74:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%58, %72, %73) {api_version = 2 : i32, backend_config = "{\22cudnn_fmha_backend_config\22:{\22algorithm\22:{\22algo_id\22:\220\22,\22is_cudnn_frontend\22:true,\22math_type\22:\22TENSOR_OP_MATH\22,\22tuning_knobs\22:{\2217\22:\221\22,\2224\22:\220\22},\22workspace_size\22:\220\22},\22bmm1_dot_dimension_numbers\22:{\22lhs_batch_dimensions\22:[\220\22,\222\22],\22lhs_contracting_dimensions\22:[\223\22],\22rhs_batch_dimensions\22:[\220\22,\222\22],\22rhs_contracting_dimensions\22:[\223\22]},\22bmm2_dot_dimension_numbers\22:{\22lhs_batch_dimensions\22:[\220\22,\221\22],\22lhs_contracting_dimensions\22:[\223\22],\22rhs_batch_dimensions\22:[\220\22,\222\22],\22rhs_contracting_dimensions\22:[\221\22]},\22dropout_rate\22:0,\22fmha_scale\22:0.25,\22intermediate_tensor_shape\22:{\22dimensions\22:[\221\22,\222\22,\226\22,\226\22],\22element_type\22:\22F16\22,\22is_dynamic_dimension\22:[false,false,false,false],\22layout\22:{\22minor_to_major\22:[\223\22,\222\22,\221\22,\220\22]}},\22is_flash_attention\22:true,\22is_paged_attention\22:false,\22mask_type\22:\22NO_MASK\22,\22max_seg_per_batch\22:1,\22seed\22:42,\22sliding_window_length\22:0},\22operation_queue_id\22:\220\22}", operand_layouts = [dense<[3, 2, 1, 0]> : tensor<4xindex>, dense<[3, 2, 1, 0]> : tensor<4xindex>, dense<[3, 2, 1, 0]> : tensor<4xindex>], result_layouts = [dense<[3, 1, 2, 0]> : tensor<4xindex>, dense<0> : tensor<1xindex>]} : (tensor<1x6x2x8xf16>, tensor<1x6x2x8xf16>, tensor<1x6x2x8xf16>) -> (tensor<1x2x6x8xf16>, tensor<0xui8>)
    %75 = stablehlo.transpose %74#0, dims = [0, 2, 1, 3] : (tensor<1x2x6x8xf16>) -> tensor<1x6x2x8xf16>
    %76 = stablehlo.reshape %75 : (tensor<1x6x2x8xf16>) -> tensor<1x6x16xf16>
    %77 = stablehlo.dot_general %76, %w10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf16>, tensor<16x16xf16>) -> tensor<1x6x16xf16>
    %78 = stablehlo.broadcast_in_dim %w11, dims = [2] : (tensor<16xf16>) -> tensor<1x6x16xf16>
    %79 = stablehlo.add %77, %78 : tensor<1x6x16xf16>
    %80 = stablehlo.convert %0 : (tensor<1x6x16xf32>) -> tensor<1x6x16xf16>
    %81 = stablehlo.add %79, %80 : tensor<1x6x16xf16>
    %82 = stablehlo.convert %81 : (tensor<1x6x16xf16>) -> tensor<1x6x16xf32>
    %83 = stablehlo.reduce(%82 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %84 = stablehlo.multiply %83, %4 : tensor<1x6xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %86 = stablehlo.subtract %82, %85 : tensor<1x6x16xf32>
    %87 = stablehlo.multiply %86, %86 : tensor<1x6x16xf32>
    %88 = stablehlo.reduce(%87 init: %2) applies stablehlo.add across dimensions = [2] : (tensor<1x6x16xf32>, tensor<f32>) -> tensor<1x6xf32>
    %89 = stablehlo.multiply %88, %4 : tensor<1x6xf32>
    %90 = stablehlo.add %89, %11 : tensor<1x6xf32>
    %91 = stablehlo.rsqrt %90 : tensor<1x6xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<1x6x16xf32>
    %93 = stablehlo.multiply %86, %92 : tensor<1x6x16xf32>
    %94 = stablehlo.broadcast_in_dim %w12, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %95 = stablehlo.multiply %93, %94 : tensor<1x6x16xf32>
    %96 = stablehlo.broadcast_in_dim %w13, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %97 = stablehlo.add %95, %96 : tensor<1x6x16xf32>
    %98 = stablehlo.convert %97 : (tensor<1x6x16xf32>) -> tensor<1x6x16xf16>
    %99 = stablehlo.dot_general %98, %w14, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x16xf16>, tensor<32x16xf16>) -> tensor<1x6x32xf16>
    %100 = stablehlo.broadcast_in_dim %w15, dims = [2] : (tensor<32xf16>) -> tensor<1x6x32xf16>
    %101 = stablehlo.add %99, %100 : tensor<1x6x32xf16>
    %102 = stablehlo.convert %101 : (tensor<1x6x32xf16>) -> tensor<1x6x32xf32>
    %103 = stablehlo.constant dense<7.0710677e-01> : tensor<1x6x32xf32>
    %104 = stablehlo.multiply %102, %103 : tensor<1x6x32xf32>
    %105 = chlo.erf %104 : tensor<1x6x32xf32> -> tensor<1x6x32xf32>
    %106 = stablehlo.constant dense<5.0e-01> : tensor<1x6x32xf32>
    %107 = stablehlo.multiply %102, %106 : tensor<1x6x32xf32>
    %108 = stablehlo.constant dense<1.0e+00> : tensor<1x6x32xf32>
    %109 = stablehlo.add %105, %108 : tensor<1x6x32xf32>
    %110 = stablehlo.multiply %107, %109 : tensor<1x6x32xf32>
    %111 = stablehlo.convert %110 : (tensor<1x6x32xf32>) -> tensor<1x6x32xf16>
    %112 = stablehlo.dot_general %111, %w16, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x6x32xf16>, tensor<16x32xf16>) -> tensor<1x6x16xf32>
    %113 = stablehlo.broadcast_in_dim %w17, dims = [2] : (tensor<16xf32>) -> tensor<1x6x16xf32>
    %114 = stablehlo.add %112, %113 : tensor<1x6x16xf32>
    %115 = stablehlo.add %114, %82 : tensor<1x6x16xf32>
    %116 = stablehlo.reshape %115 : (tensor<1x6x16xf32>) -> tensor<96xf32>
    return %116 : tensor<96xf32>
  }
}
// w0: norm1.weight as f32[16], dimensions []
// w1: norm1.bias as f32[16], dimensions []
// w2: q.weight as f16[16,16], dimensions []
// w3: q.bias as f16[16], dimensions []
// w4: norm2.weight as f32[16], dimensions []
// w5: norm2.bias as f32[16], dimensions []
// w6: projk.weight + projv.weight as f16[32,16], dimensions []
// w7: projk.bias + projv.bias as f16[32], dimensions []
// w8: table of 48 as f32[6,1,8], dimensions []
// w9: table of 48 as f32[6,1,8], dimensions []
// w10: proj.weight as f16[16,16], dimensions []
// w11: proj.bias as f16[16], dimensions []
// w12: norm3.weight as f32[16], dimensions []
// w13: norm3.bias as f32[16], dimensions []
// w14: fc1.weight as f16[32,16], dimensions []
// w15: fc1.bias as f16[32], dimensions []
// w16: fc2.weight as f16[16,32], dimensions []
// w17: fc2.bias as f32[16], dimensions []
