//! The vFunction `model` on a device that is only modelled: it waits as long as
//! the manifest says that the device takes.

vfun_sdk::export_driver!(
    vfun_modeldevice::Device,
    name = vfun_modeldevice::NAME,
    version = (1, 0),
    max_args = vfun_modeldevice::MAX_ARGS,
    max_result = vfun_modeldevice::MAX_RESULT,
);
