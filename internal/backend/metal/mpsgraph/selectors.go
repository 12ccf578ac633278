// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// Every message is declared once, with its Go type and the first macOS that has
// it, and compared with Apple's tables by a test. The versions are those of the
// class dumps where the headers promise more than the systems had. The widths
// matter: scale and epsilon are float, other constants double, data types uint32.

// The classes that receive messages by name.
var (
	graphClass       = objc.DeclareClass("MPSGraph", objc.V(11, 0))
	graphDeviceClass = objc.DeclareClass("MPSGraphDevice", objc.V(11, 0))
	shapedTypeClass  = objc.DeclareClass("MPSGraphShapedType", objc.V(11, 0))
	tensorDataClass  = objc.DeclareClass("MPSGraphTensorData", objc.V(11, 0))
	arrayClass       = objc.DeclareClass("MPSNDArray", objc.V(10, 15))
	arrayDescClass   = objc.DeclareClass("MPSNDArrayDescriptor", objc.V(10, 15))
	convDescClass    = objc.DeclareClass("MPSGraphConvolution2DOpDescriptor", objc.V(11, 0))
	poolDescClass    = objc.DeclareClass("MPSGraphPooling2DOpDescriptor", objc.V(11, 0))
	executionDesc    = objc.DeclareClass("MPSGraphExecutableExecutionDescriptor", objc.V(12, 0))
	compilationDesc  = objc.DeclareClass("MPSGraphCompilationDescriptor", objc.V(12, 0))
)

// MPSGraph: sources.
var (
	placeholder    = objc.Instance[func(o, shape objc.ID, dataType uint32, name objc.ID) objc.ID]("MPSGraph", "placeholderWithShape:dataType:name:", objc.V(11, 0))
	constantScalar = objc.Instance[func(o objc.ID, scalar float64, shape objc.ID, dataType uint32) objc.ID]("MPSGraph", "constantWithScalar:shape:dataType:", objc.V(11, 0))
	constantData   = objc.Instance[func(o, data, shape objc.ID, dataType uint32) objc.ID]("MPSGraph", "constantWithData:shape:dataType:", objc.V(11, 0))
	identity       = objc.Instance[func(o, tensor, name objc.ID) objc.ID]("MPSGraph", "identityWithTensor:name:", objc.V(11, 0))
)

// MPSGraph: functions of one tensor.
var (
	absolute          = declare1("absolute", objc.V(11, 0))
	negative          = declare1("negative", objc.V(11, 0))
	exponent          = declare1("exponent", objc.V(11, 0))
	logarithm         = declare1("logarithm", objc.V(11, 0))
	squareRoot        = declare1("squareRoot", objc.V(11, 0))
	reciprocalSqrt    = declare1("reciprocalSquareRoot", objc.V(15, 0))
	reciprocal        = declare1("reciprocal", objc.V(11, 0))
	square            = declare1("square", objc.V(11, 0))
	hyperbolicTangent = declare1("tanh", objc.V(11, 0))
	sigmoid           = declare1("sigmoid", objc.V(11, 0))
	erf               = declare1("erf", objc.V(11, 0))
	reLU              = declare1("reLU", objc.V(11, 0))
	cast              = objc.Instance[func(o, tensor objc.ID, dataType uint32, name objc.ID) objc.ID]("MPSGraph", "castTensor:toType:name:", objc.V(12, 0))
)

// MPSGraph: functions of two or three tensors, broadcasting. Maximum and minimum
// are the forms that keep NaN.
var (
	addition       = declare2("addition", objc.V(11, 0))
	subtraction    = declare2("subtraction", objc.V(11, 0))
	multiplication = declare2("multiplication", objc.V(11, 0))
	division       = declare2("division", objc.V(11, 0))
	power          = declare2("power", objc.V(11, 0))
	maximumNaN     = declare2("maximumWithNaNPropagation", objc.V(12, 0))
	minimumNaN     = declare2("minimumWithNaNPropagation", objc.V(12, 0))
	equal          = declare2("equal", objc.V(11, 0))
	lessThan       = declare2("lessThan", objc.V(11, 0))
	greaterThan    = declare2("greaterThan", objc.V(11, 0))
	selectOp       = objc.Instance[func(o, predicateTensor, truePredicateTensor, falsePredicateTensor, name objc.ID) objc.ID]("MPSGraph", "selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:", objc.V(11, 0))
)

// MPSGraph: shapes.
var (
	reshape    = objc.Instance[func(o, tensor, shape, name objc.ID) objc.ID]("MPSGraph", "reshapeTensor:withShape:name:", objc.V(11, 0))
	transpose  = objc.Instance[func(o, tensor, permutation, name objc.ID) objc.ID]("MPSGraph", "transposeTensor:permutation:name:", objc.V(13, 0))
	reverse    = objc.Instance[func(o, tensor, axes, name objc.ID) objc.ID]("MPSGraph", "reverseTensor:axes:name:", objc.V(12, 0))
	slice      = objc.Instance[func(o, tensor, starts, ends, strides, name objc.ID) objc.ID]("MPSGraph", "sliceTensor:starts:ends:strides:name:", objc.V(11, 0))
	concat     = objc.Instance[func(o, tensors objc.ID, dimensionIndex int64, name objc.ID) objc.ID]("MPSGraph", "concatTensors:dimension:name:", objc.V(11, 0))
	splitSizes = objc.Instance[func(o, tensor, splitSizes objc.ID, axis int64, name objc.ID) objc.ID]("MPSGraph", "splitTensor:splitSizes:axis:name:", objc.V(12, 3))
	pad        = objc.Instance[func(o, tensor objc.ID, paddingMode int64, leftPadding, rightPadding objc.ID, constantValue float64, name objc.ID) objc.ID]("MPSGraph", "padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:", objc.V(11, 0))
	broadcast  = objc.Instance[func(o, tensor, shape, name objc.ID) objc.ID]("MPSGraph", "broadcastTensor:toShape:name:", objc.V(12, 0))
	gather     = objc.Instance[func(o, updatesTensor, indicesTensor objc.ID, axis, batchDimensions uint64, name objc.ID) objc.ID]("MPSGraph", "gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:", objc.V(11, 0))
	scatter    = objc.Instance[func(o, dataTensor, updatesTensor, indicesTensor objc.ID, axis, mode int64, name objc.ID) objc.ID]("MPSGraph", "scatterWithDataTensor:updatesTensor:indicesTensor:axis:mode:name:", objc.V(12, 0))
)

// MPSGraph: products and attention.
var (
	matmul            = objc.Instance[func(o, primaryTensor, secondaryTensor, name objc.ID) objc.ID]("MPSGraph", "matrixMultiplicationWithPrimaryTensor:secondaryTensor:name:", objc.V(11, 0))
	attentionUnmasked = objc.Instance[func(o, query, key, value objc.ID, scale float32, name objc.ID) objc.ID]("MPSGraph", "scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:scale:name:", objc.V(15, 0))
	attention         = objc.Instance[func(o, query, key, value, mask objc.ID, scale float32, name objc.ID) objc.ID]("MPSGraph", "scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:maskTensor:scale:name:", objc.V(15, 0))
)

// MPSGraph: reductions and normalisation.
var (
	reduceSum    = objc.Instance[func(o, tensor, axes, name objc.ID) objc.ID]("MPSGraph", "reductionSumWithTensor:axes:name:", objc.V(11, 0))
	reduceMaxNaN = objc.Instance[func(o, tensor, axes, name objc.ID) objc.ID]("MPSGraph", "reductionMaximumPropagateNaNWithTensor:axes:name:", objc.V(11, 0))
	reduceMinNaN = objc.Instance[func(o, tensor, axes, name objc.ID) objc.ID]("MPSGraph", "reductionMinimumPropagateNaNWithTensor:axes:name:", objc.V(11, 0))
	argMax       = objc.Instance[func(o, tensor objc.ID, axis int64, name objc.ID) objc.ID]("MPSGraph", "reductionArgMaximumWithTensor:axis:name:", objc.V(12, 0))
	argMin       = objc.Instance[func(o, tensor objc.ID, axis int64, name objc.ID) objc.ID]("MPSGraph", "reductionArgMinimumWithTensor:axis:name:", objc.V(12, 0))
	meanOf       = objc.Instance[func(o, tensor, axes, name objc.ID) objc.ID]("MPSGraph", "meanOfTensor:axes:name:", objc.V(11, 0))
	varianceOf   = objc.Instance[func(o, tensor, meanTensor, axes, name objc.ID) objc.ID]("MPSGraph", "varianceOfTensor:meanTensor:axes:name:", objc.V(11, 0))
	normalize    = objc.Instance[func(o, tensor, mean, variance, gamma, beta objc.ID, epsilon float32, name objc.ID) objc.ID]("MPSGraph", "normalizationWithTensor:meanTensor:varianceTensor:gammaTensor:betaTensor:epsilon:name:", objc.V(11, 0))
	softMax      = objc.Instance[func(o, tensor objc.ID, axis int64, name objc.ID) objc.ID]("MPSGraph", "softMaxWithTensor:axis:name:", objc.V(11, 0))
	topK         = objc.Instance[func(o, source objc.ID, axis int64, k uint64, name objc.ID) objc.ID]("MPSGraph", "topKWithSourceTensor:axis:k:name:", objc.V(14, 0))
)

// MPSGraph: feature maps.
var (
	conv2D                = objc.Instance[func(o, source, weights, descriptor, name objc.ID) objc.ID]("MPSGraph", "convolution2DWithSourceTensor:weightsTensor:descriptor:name:", objc.V(11, 0))
	conv2DDataGradient    = objc.Instance[func(o, incomingGradient, weights, outputShape, forwardConvolutionDescriptor, name objc.ID) objc.ID]("MPSGraph", "convolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:forwardConvolutionDescriptor:name:", objc.V(11, 0))
	conv2DWeightsGradient = objc.Instance[func(o, incomingGradient, source, outputShape, forwardConvolutionDescriptor, name objc.ID) objc.ID]("MPSGraph", "convolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:forwardConvolutionDescriptor:name:", objc.V(11, 0))
	convTranspose2D       = objc.Instance[func(o, source, weights, outputShape, descriptor, name objc.ID) objc.ID]("MPSGraph", "convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name:", objc.V(11, 0))
	maxPool2D             = objc.Instance[func(o, source, descriptor, name objc.ID) objc.ID]("MPSGraph", "maxPooling2DWithSourceTensor:descriptor:name:", objc.V(11, 0))
	avgPool2D             = objc.Instance[func(o, source, descriptor, name objc.ID) objc.ID]("MPSGraph", "avgPooling2DWithSourceTensor:descriptor:name:", objc.V(11, 0))
	maxPool2DGradient     = objc.Instance[func(o, gradient, source, descriptor, name objc.ID) objc.ID]("MPSGraph", "maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", objc.V(11, 0))
	avgPool2DGradient     = objc.Instance[func(o, gradient, source, descriptor, name objc.ID) objc.ID]("MPSGraph", "avgPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", objc.V(11, 0))
	resize                = objc.Instance[func(o, imagesTensor, size objc.ID, mode uint64, centerResult, alignCorners bool, layout uint64, name objc.ID) objc.ID]("MPSGraph", "resizeTensor:size:mode:centerResult:alignCorners:layout:name:", objc.V(11, 0))
	resizeNearest         = objc.Instance[func(o, imagesTensor, size objc.ID, nearestRoundingMode uint64, centerResult, alignCorners bool, layout uint64, name objc.ID) objc.ID]("MPSGraph", "resizeNearestWithTensor:sizeTensor:nearestRoundingMode:centerResult:alignCorners:layout:name:", objc.V(13, 0))
	depthToSpace2D        = objc.Instance[func(o, tensor objc.ID, widthAxis, heightAxis, depthAxis, blockSize uint64, usePixelShuffleOrder bool, name objc.ID) objc.ID]("MPSGraph", "depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name:", objc.V(12, 0))
	conv2DDescriptor      = objc.ClassMethod[func(c objc.Class, strideInX, strideInY, dilationRateInX, dilationRateInY, groups, paddingLeft, paddingRight, paddingTop, paddingBottom, paddingStyle, dataLayout, weightsLayout uint64) objc.ID]("MPSGraphConvolution2DOpDescriptor", "descriptorWithStrideInX:strideInY:dilationRateInX:dilationRateInY:groups:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingStyle:dataLayout:weightsLayout:", objc.V(11, 0))
	pool2DDescriptor      = objc.ClassMethod[func(c objc.Class, kernelWidth, kernelHeight, strideInX, strideInY, dilationRateInX, dilationRateInY, paddingLeft, paddingRight, paddingTop, paddingBottom, paddingStyle, dataLayout uint64) objc.ID]("MPSGraphPooling2DOpDescriptor", "descriptorWithKernelWidth:kernelHeight:strideInX:strideInY:dilationRateInX:dilationRateInY:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingStyle:dataLayout:", objc.V(11, 0))
)

// Tensors and their data. An array at an offset of a buffer is public since 15.
var (
	tensorShape         = objc.Instance[func(o objc.ID) objc.ID]("MPSGraphTensor", "shape", objc.V(11, 0))
	tensorDataType      = objc.Instance[func(o objc.ID) uint32]("MPSGraphTensor", "dataType", objc.V(11, 0))
	initShapedType      = objc.Instance[func(o, shape objc.ID, dataType uint32) objc.ID]("MPSGraphShapedType", "initWithShape:dataType:", objc.V(11, 0))
	initWithBuffer      = objc.Instance[func(o, buffer, shape objc.ID, dataType uint32) objc.ID]("MPSGraphTensorData", "initWithMTLBuffer:shape:dataType:", objc.V(11, 0))
	initWithNDArray     = objc.Instance[func(o, ndarray objc.ID) objc.ID]("MPSGraphTensorData", "initWithMPSNDArray:", objc.V(11, 0))
	arrayDescriptor     = objc.ClassMethod[func(c objc.Class, dataType uint32, shape objc.ID) objc.ID]("MPSNDArrayDescriptor", "descriptorWithDataType:shape:", objc.V(10, 15))
	setPreferPackedRows = objc.Instance[func(o objc.ID, packed bool)]("MPSNDArrayDescriptor", "setPreferPackedRows:", objc.V(15, 0))
	initArray           = objc.Instance[func(o, buffer objc.ID, offset uint64, descriptor objc.ID) objc.ID]("MPSNDArray", "initWithBuffer:offset:descriptor:", objc.V(15, 0))
)

// Compiling and running.
var (
	graphDevice           = objc.ClassMethod[func(c objc.Class, metalDevice objc.ID) objc.ID]("MPSGraphDevice", "deviceWithMTLDevice:", objc.V(11, 0))
	compile               = objc.Instance[func(o, device, feeds, targetTensors, targetOperations, compilationDescriptor objc.ID) objc.ID]("MPSGraph", "compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:", objc.V(12, 0))
	setOptimizationLevel  = objc.Instance[func(o objc.ID, optimizationLevel uint64)]("MPSGraphCompilationDescriptor", "setOptimizationLevel:", objc.V(12, 3))
	setWaitForCompilation = objc.Instance[func(o objc.ID, waitForCompilationCompletion bool)]("MPSGraphCompilationDescriptor", "setWaitForCompilationCompletion:", objc.V(13, 0))
	setOptions            = objc.Instance[func(o objc.ID, options uint64)]("MPSGraphExecutable", "setOptions:", objc.V(12, 0))
	feedTensors           = objc.Instance[func(o objc.ID) objc.ID]("MPSGraphExecutable", "feedTensors", objc.V(12, 0))
	targetTensors         = objc.Instance[func(o objc.ID) objc.ID]("MPSGraphExecutable", "targetTensors", objc.V(12, 0))
	setCommitAndContinue  = objc.Private[func(o objc.ID, enable bool)]("MPSGraphExecutableExecutionDescriptor", "setEnableCommitAndContinue:", objc.V(12, 1))
	encode                = objc.Instance[func(o, commandBuffer, inputsArray, resultsArray, executionDescriptor objc.ID) objc.ID]("MPSGraphExecutable", "encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:", objc.V(12, 0))
)
