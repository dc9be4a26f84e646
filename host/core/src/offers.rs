//! What is offered, told to apps: `list` and `describe`.

use super::catalog::{Client, Function};
use super::nacks::{self, malformed};
use super::requests::{Answer, body, zero};
use super::{Core, WindowId, rules};
use vfun_wire::limits::MEANING_BYTES;
use vfun_wire::message::{
    self, CodeEntry, Codes, Describe, DescribeAck, Kind, List, ListAck, ListEntry, Location,
};
use vfun_wire::{Nack, names};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{I32, U32, U64};

impl Core {
    pub(super) fn describe(&self, window: WindowId, bytes: &[u8]) -> Answer {
        let d: Describe = body(bytes, Kind::Describe)?;
        let f = self.offered_to(window, &d.function)?;
        let text = f.signature.as_ref().map_or(String::new(), |s| s.to_string());
        let head = DescribeAck {
            function_id: U32::new(f.id),
            version: U32::new(f.version.0),
            signature: U64::new(f.fingerprint()),
            max_args: U32::new(f.max_args),
            max_result: U32::new(f.max_result),
            text_len: U32::new(text.len() as u32),
            reserved0: U32::ZERO,
            reserved1: U64::ZERO,
        };
        Ok([head.as_bytes(), text.as_bytes()].concat())
    }

    /// What a function's own error codes mean.
    pub(super) fn codes(&self, window: WindowId, bytes: &[u8]) -> Answer {
        let c: Codes = body(bytes, Kind::Codes)?;
        zero("codes' reserved bytes", c.reserved.get() == 0)?;
        let f = self.offered_to(window, &c.function)?;
        let entry = |(code, text): (&i32, &String)| {
            let mut meaning = [0; MEANING_BYTES];
            let bytes = text.as_bytes();
            meaning[..bytes.len()].copy_from_slice(bytes);
            CodeEntry { code: I32::new(*code), reserved: U32::ZERO, meaning }
        };
        let start = c.start.get() as usize;
        let page: Vec<CodeEntry> =
            f.codes.iter().skip(start).take(message::CODE_ENTRIES).map(entry).collect();
        let (count, total) = (page.len() as u32, f.codes.len() as u32);
        let head = ListAck { count: U32::new(count), total: U32::new(total) };
        Ok([head.as_bytes(), page.as_bytes()].concat())
    }

    /// A function that a client may ask about.
    fn offered_to(&self, window: WindowId, name: &message::Name) -> Result<&Function, Nack> {
        let name =
            names::decode(name).map_err(|e| malformed(format!("the function's name: {e}")))?;
        let client = self.client_of(window)?;
        let found = self.catalog.function(client.id, name);
        let f = found.ok_or_else(|| self.no_such_function(client, name))?;
        rules::check_may(&self.catalog, client, name)?;
        Ok(f)
    }

    /// What is said of a name that is nothing to a client. A name is suggested only of
    /// what it is offered.
    pub(super) fn no_such_function(&self, client: &Client, name: &str) -> Nack {
        let offered = self.catalog.functions_of(client.id).map(|f| f.name.as_str());
        let offered = offered.filter(|f| rules::offered(&self.catalog, client, f));
        let near = offered
            .map(|f| (strsim::damerau_levenshtein(f, name), f))
            .filter(|(edits, f)| *edits <= 1.max(f.len().min(name.len()) / 3))
            .min();
        let near = near.map_or(String::new(), |(_, f)| format!(" (is '{f}' meant?)"));
        nacks::no_function(client, name, &near)
    }

    pub(super) fn list(&self, window: WindowId, bytes: &[u8]) -> Answer {
        let l: List = body(bytes, Kind::List)?;
        zero("list's reserved bytes", l.reserved.get() == 0)?;
        let client = self.client_of(window)?;
        let mine: Vec<_> = self
            .catalog
            .functions_of(client.id)
            .filter(|f| rules::offered(&self.catalog, client, &f.name))
            .collect();
        let page: Vec<_> =
            mine.iter().skip(l.start.get() as usize).take(message::LIST_ENTRIES).collect();
        let head =
            ListAck { count: U32::new(page.len() as u32), total: U32::new(mine.len() as u32) };
        let mut answer = head.as_bytes().to_vec();
        for f in page {
            let mut locations = 0u32;
            if f.software.is_some() {
                locations |= 1 << Location::Software.to_wire();
            }
            if let Some(hw) = &f.hardware {
                locations |= 1 << hw.location.to_wire();
            }
            answer.extend_from_slice(
                ListEntry {
                    function: names::encode(&f.name).expect("checked when declared"),
                    function_id: U32::new(f.id),
                    version: U32::new(f.version.0),
                    max_args: U32::new(f.max_args),
                    max_result: U32::new(f.max_result),
                    locations: U32::new(locations),
                    deadline_ms: U32::new(f.deadline_ms),
                    reserved: U64::ZERO,
                }
                .as_bytes(),
            );
        }
        Ok(answer)
    }
}
