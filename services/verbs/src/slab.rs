//! Tables of objects by place, and the names of places.

use crate::refused::Refused;

macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// A number for people and logs.
            pub const fn number(self) -> u32 {
                self.0
            }
        }
    )*};
}

ids! {
    /// A program that uses the NIC.
    ProgramId
    /// A window that registered memory lies in.
    WindowId
    /// A protection domain.
    PdId
    /// A completion queue.
    CqId
    /// A shared receive queue.
    SrqId
    /// A queue pair; not the number that its peers know.
    QpId
    /// An address handle.
    AhId
}

/// Objects by place.
pub struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
    most: usize,
    what: &'static str,
}

impl<T> Slab<T> {
    pub const fn new(what: &'static str, most: usize) -> Self {
        Slab { places: Vec::new(), free: Vec::new(), most, what }
    }

    /// Puts one at a free place.
    ///
    /// # Errors
    /// [`Refused::Limit`].
    pub fn insert(&mut self, value: T) -> Result<u32, Refused> {
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(value);
            return Ok(at);
        }
        if self.places.len() >= self.most {
            return Err(Refused::Limit(self.what));
        }
        self.places.push(Some(value));
        Ok(self.places.len() as u32 - 1)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn remove(&mut self, at: u32) -> Option<T> {
        let found = self.places.get_mut(at as usize)?.take();
        if found.is_some() {
            self.free.push(at);
        }
        found
    }

    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    /// The place after the last one.
    pub fn end(&self) -> u32 {
        self.places.len() as u32
    }

    /// Those that are there, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(at, v)| Some((at as u32, v.as_ref()?)))
    }

    /// Those that are there, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }

    /// Places of those that are as asked for.
    pub fn places(&self, of: impl Fn(&T) -> bool) -> Vec<u32> {
        self.iter().filter(|(_, v)| of(v)).map(|(at, _)| at).collect()
    }
}

/// An object that another one names is there: what keeps it alive is counted.
impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: u32) -> &T {
        self.get(at).expect("it is used, so it was not removed")
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.get_mut(at).expect("it is used, so it was not removed")
    }
}
