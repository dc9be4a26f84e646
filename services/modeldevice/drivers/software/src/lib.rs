//! The vFunction `model` in software: as much work as the manifest says.

vfun_sdk::export_driver!(
    vfun_modeldevice::Software,
    name = vfun_modeldevice::NAME,
    version = (1, 0),
    max_args = vfun_modeldevice::MAX_ARGS,
    max_result = vfun_modeldevice::MAX_RESULT,
);
