//! `#[derive(Value)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields};

/// The implementation for a struct with named members.
pub fn expand(item: &DeriveInput) -> syn::Result<TokenStream> {
    let not = |why| Err(Error::new_spanned(&item.ident, why));
    let Data::Struct(data) = &item.data else {
        return not("only structs can be sent: a tag and its cases have no C layout");
    };
    let Fields::Named(fields) = &data.fields else {
        return not("members need names: they stand in the signature");
    };
    if fields.named.is_empty() {
        return not("a struct that is sent has at least one member");
    }
    if !item.generics.params.is_empty() {
        return not("a struct that is sent has no generics: its bytes have one layout");
    }
    let ty = &item.ident;
    let name = ty.to_string();
    let value = quote!(::vfun_function::Value);
    let members: Vec<_> = fields.named.iter().filter_map(|f| f.ident.as_ref()).collect();
    let names: Vec<_> =
        members.iter().map(|m| m.to_string().trim_start_matches("r#").to_owned()).collect();
    let types: Vec<_> = fields.named.iter().map(|f| &f.ty).collect();
    // Of the members before each one.
    let layouts: Vec<_> = (0..=types.len())
        .map(|n| {
            let before = &types[..n];
            quote!(::vfun_function::Layout::NEW #(.with(<#before as #value>::BYTES, <#before as #value>::ALIGN))*)
        })
        .collect();
    let (before, all) = (&layouts[..types.len()], &layouts[types.len()]);
    Ok(quote! {
        const _: () = {
            const ALL: ::vfun_function::Layout = #all;
            impl #value for #ty {
                const SHAPE: ::vfun_function::Shape = ::vfun_function::Shape::Struct(
                    #name,
                    &[#((#names, <#types as #value>::SHAPE)),*],
                );
                const BYTES: usize = ALL.bytes();
                const ALIGN: usize = ALL.align;
                #[inline]
                fn put(&self, to: &mut [u8]) {
                    #(
                        {
                            const AT: usize = #before.next(<#types as #value>::ALIGN);
                            <#types as #value>::put(&self.#members, &mut to[AT..]);
                        }
                    )*
                }
                #[inline]
                fn get(from: &[u8]) -> ::core::result::Result<Self, ::vfun_function::Invalid> {
                    ::core::result::Result::Ok(#ty {
                        #(
                            #members: {
                                const AT: usize = #before.next(<#types as #value>::ALIGN);
                                <#types as #value>::get(&from[AT..])?
                            }
                        ),*
                    })
                }
            }
        };
    })
}
