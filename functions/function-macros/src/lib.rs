//! The macros of `vfun-function`, whose documentation has them.

mod function;
mod options;
mod types;
mod value;

use proc_macro::TokenStream;

/// Makes an ordinary function a vFunction as well; see the crate's documentation.
///
/// Options: `version = "MAJOR.MINOR"` (needed), `name = "…"` (the function's own
/// name), `summary = "…"`, `deadline_ms = 1000` (the host's default).
#[proc_macro_attribute]
pub fn vfunction(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as syn::ItemFn);
    let options = syn::parse_macro_input!(options as options::Options);
    function::expand(&item, &options).unwrap_or_else(|e| e.into_compile_error()).into()
}

/// Lets a struct of scalars, arrays and such structs be an argument or a result.
#[proc_macro_derive(Value)]
pub fn value(item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as syn::DeriveInput);
    value::expand(&item).unwrap_or_else(|e| e.into_compile_error()).into()
}
