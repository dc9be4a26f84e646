//! vfun: the command people type
