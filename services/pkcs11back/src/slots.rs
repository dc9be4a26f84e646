//! Which tokens a client sees.
#![allow(unsafe_code)]

use crate::generated::{CK_TOKEN_INFO, Native, OK};
use vfun_sdk::Config;

/// The tokens that a connection may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    #[default]
    All,
    /// Those that one of these names: a label, `serial:NUMBER` or `slot:NUMBER`.
    Named(Vec<String>),
}

impl Slots {
    /// What the manifest's settings say for this client: `slots:CLIENT`, otherwise `slots`.
    pub fn of(config: &Config) -> Slots {
        let own = config.settings.get(&format!("slots:{}", config.client));
        let Some(text) = own.or_else(|| config.settings.get("slots")) else { return Slots::All };
        Slots::Named(
            text.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect(),
        )
    }

    /// Whether this slot may be used now. A label is that of the token that is in it now.
    pub fn may_use(&self, native: &Native, slot: u64) -> bool {
        let Slots::Named(names) = self else { return true };
        let info = token(native, slot);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        names.iter().any(|name| match (name.split_once(':'), &info) {
            (Some(("slot", number)), _) => number.parse() == Ok(slot),
            (Some(("serial", number)), Some(info)) => text(&info.serialNumber) == number,
            (_, Some(info)) => text(&info.label) == *name,
            (_, None) => false,
        })
    }
}

/// What a module says of the token in a slot.
fn token(native: &Native, slot: u64) -> Option<CK_TOKEN_INFO> {
    let mut info = std::mem::MaybeUninit::<CK_TOKEN_INFO>::zeroed();
    // SAFETY: the place is ours.
    let returned = unsafe { native.C_GetTokenInfo?(slot, info.as_mut_ptr()) };
    // SAFETY: zeros are numbers, and so is what the module wrote.
    (returned == OK).then(|| unsafe { info.assume_init() })
}
