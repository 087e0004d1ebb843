export * from "@rowmajor/tensor/onnx/session";
