//! VirtFun's manager, vfund
