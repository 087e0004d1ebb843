"use strict";
// Programs require this package synchronously: no module of the library waits while it is loaded.
module.exports = require("@rowmajor/tensor/onnx/session");
