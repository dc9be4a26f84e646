//! VirtFun's guest library
