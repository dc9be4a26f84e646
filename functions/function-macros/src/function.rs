//! What `#[vfunction]` adds to a function.

use crate::options::Options;
use crate::types::{Arg, Output, Typed};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ItemFn;

/// What all parts of the expansion speak of.
struct Parts<'a> {
    item: &'a ItemFn,
    options: &'a Options,
    typed: Typed,
    name: String,
}

fn value() -> TokenStream {
    quote!(::vfun_function::Value)
}

/// `Layout` of these types, one after the other.
fn layout(types: &[&syn::Type]) -> TokenStream {
    let v = value();
    quote!(::vfun_function::Layout::NEW #(.with(<#types as #v>::BYTES, <#types as #v>::ALIGN))*)
}

fn plain(name: &syn::Ident) -> String {
    name.to_string().trim_start_matches("r#").to_owned()
}

impl Parts<'_> {
    fn fixed_types(&self) -> Vec<&syn::Type> {
        self.typed.fixed.iter().map(|a| &a.ty).collect()
    }

    /// Constants: layouts, signature, manifest.
    fn constants(&self) -> TokenStream {
        let v = value();
        let types = self.fixed_types();
        let names: Vec<_> = self.typed.fixed.iter().map(|a| plain(&a.name)).collect();
        let fixed = layout(&types);
        let (args, args_tail) = match &self.typed.tail {
            None => (quote!(#fixed.closed()), quote!(::core::option::Option::None)),
            Some(Arg { name, ty }) => {
                let name = plain(name);
                (
                    quote!(#fixed.open(<#ty as #v>::BYTES, <#ty as #v>::ALIGN)),
                    quote!(::core::option::Option::Some((#name, <#ty as #v>::SHAPE))),
                )
            }
        };
        let none = quote!(::core::option::Option::None);
        let new = quote!(::vfun_function::Layout::NEW);
        let (results, result, result_tail) = match &self.typed.output {
            Output::Unit => (quote!(#new.closed()), none.clone(), none),
            Output::Value(ty) => (
                quote!(#new.with(<#ty as #v>::BYTES, <#ty as #v>::ALIGN).closed()),
                quote!(::core::option::Option::Some(<#ty as #v>::SHAPE)),
                none,
            ),
            Output::Vec(ty) => (
                quote!(#new.open(<#ty as #v>::BYTES, <#ty as #v>::ALIGN)),
                none,
                quote!(::core::option::Option::Some(<#ty as #v>::SHAPE)),
            ),
        };
        let name = &self.name;
        let version = &self.options.version;
        let (major, minor) = self.options.numbers;
        let summary = self.options.summary.as_ref().map_or(quote!(""), |s| quote!(#s));
        let deadline = self.options.deadline_ms.as_ref().map_or(quote!(0), |d| quote!(#d));
        quote! {
            const ARGS: ::vfun_function::Record = #args;
            const RESULTS: ::vfun_function::Record = #results;
            const FACTS: ::vfun_function::Manifest = ::vfun_function::Manifest {
                name: #name,
                version: #version,
                summary: #summary,
                deadline_ms: #deadline,
                args: &[#((#names, <#types as #v>::SHAPE)),*],
                args_tail: #args_tail,
                result: #result,
                result_tail: #result_tail,
            };
            const SIGNATURE_BYTES: [u8; FACTS.signature_len()] = FACTS.signature();
            const MANIFEST_BYTES: [u8; FACTS.text_len()] = FACTS.text();
            /// The function's name on a host.
            pub const NAME: &str = #name;
            /// Its version: major, minor.
            pub const VERSION: (u16, u16) = (#major, #minor);
            /// What it takes and gives, as a manifest has it.
            pub const SIGNATURE: &str = ::vfun_function::str_of(&SIGNATURE_BYTES);
            /// Its manifest, TOML, without `kind` and `library`.
            pub const MANIFEST: &str = ::vfun_function::str_of(&MANIFEST_BYTES);
        }
    }

    /// `const AT…` of each argument of a fixed size.
    fn offsets(&self) -> Vec<TokenStream> {
        let types = self.fixed_types();
        (0..types.len())
            .map(|n| {
                let (before, ty, v) = (layout(&types[..n]), types[n], value());
                quote!({ const AT: usize = #before.next(<#ty as #v>::ALIGN); AT })
            })
            .collect()
    }

    /// The symbols of a driver.
    fn driver(&self) -> TokenStream {
        let name = &self.name;
        let (major, minor) = self.options.numbers;
        let (fixed, tail, put) = (self.take_fixed(), self.take_tail(), self.put());
        quote! {
            #[cfg(feature = "driver")]
            const _: () = {
                fn serve(
                    args: &::vfun_sdk::Args<'_>,
                    out: &mut ::vfun_sdk::Out<'_>,
                ) -> ::core::result::Result<(), ::vfun_sdk::DriverError> {
                    #[allow(unused_variables)]
                    let Some(elements) = ARGS.elements(args.len()) else {
                        return ::core::result::Result::Err(::vfun_sdk::DriverError::bad_args(
                            ::std::format!("{} bytes are no arguments {SIGNATURE}", args.len()),
                        ));
                    };
                    #fixed
                    #tail
                    #put
                }
                ::vfun_sdk::export_function!(
                    serve,
                    name = #name,
                    version = (#major, #minor),
                    max_args = ARGS.most() as u32,
                    max_result = RESULTS.most() as u32,
                );
                ::vfun_sdk::export_manifest!(MANIFEST_BYTES);
            };
        }
    }

    /// The arguments of a fixed size, as `a0`, `a1`….
    fn vars(&self) -> Vec<syn::Ident> {
        (0..self.typed.fixed.len()).map(|n| format_ident!("a{n}")).collect()
    }

    /// A driver reads the arguments of a fixed size.
    fn take_fixed(&self) -> TokenStream {
        let (v, types, at, vars) = (value(), self.fixed_types(), self.offsets(), self.vars());
        match types.is_empty() {
            true => quote!(),
            false => quote! {
                let mut fixed = [0u8; ARGS.fixed];
                args.read_at(0, &mut fixed)?;
                #(
                    let #vars = <#types as #v>::get(&fixed[#at..])
                        .map_err(|e| ::vfun_sdk::DriverError::bad_args(e.to_string()))?;
                )*
            },
        }
    }

    /// A driver reads the array that ends the arguments.
    fn take_tail(&self) -> TokenStream {
        let v = value();
        let Some(Arg { ty, .. }) = &self.typed.tail else { return quote!() };
        quote! {
            let mut bytes = ::std::vec![0u8; elements * ARGS.each];
            args.read_at(ARGS.tail, &mut bytes)?;
            let tail: ::std::vec::Vec<#ty> = bytes
                .chunks_exact(ARGS.each)
                .map(<#ty as #v>::get)
                .collect::<::core::result::Result<_, _>>()
                .map_err(|e| ::vfun_sdk::DriverError::bad_args(e.to_string()))?;
        }
    }

    /// A driver calls the function and writes what it gives.
    fn put(&self) -> TokenStream {
        let (v, vars, function) = (value(), self.vars(), &self.item.sig.ident);
        let tail = self.typed.tail.as_ref().map(|_| quote!(&tail));
        let call = quote!(super::#function(#(#vars,)* #tail));
        let call = match self.typed.fallible {
            false => call,
            true => quote! {
                #call.map_err(|e| {
                    ::vfun_sdk::DriverError::new(::vfun_function::OWN_ERROR, e.to_string())
                })?
            },
        };
        match &self.typed.output {
            Output::Unit => quote!(let () = #call; ::core::result::Result::Ok(())),
            Output::Value(ty) => quote! {
                let result: #ty = #call;
                let mut room = [0u8; RESULTS.fixed];
                <#ty as #v>::put(&result, &mut room);
                out.put(&room)
            },
            Output::Vec(ty) => quote! {
                let result: ::std::vec::Vec<#ty> = #call;
                let mut room = ::std::vec![0u8; result.len() * RESULTS.each];
                for (x, to) in result.iter().zip(room.chunks_exact_mut(RESULTS.each)) {
                    <#ty as #v>::put(x, to);
                }
                out.put(&room)
            },
        }
    }

    /// What a program calls.
    fn app(&self) -> TokenStream {
        let (opening, call) = (self.app_opening(), self.app_call());
        quote! {
            /// The function, on a host or in this process.
            #[cfg(feature = "app")]
            #[derive(Debug)]
            pub struct Function {
                host: ::core::option::Option<::vfun::Function>,
            }

            #[cfg(feature = "app")]
            fn nonsense(len: usize) -> ::vfun::Error {
                ::vfun::Error::HostNonsense(::std::format!("{len} bytes that are no results {SIGNATURE}"))
            }

            #opening

            #[cfg(feature = "app")]
            impl Function {
                /// In this process, whatever a host has.
                pub fn in_process() -> Self {
                    Function { host: None }
                }

                /// The host's function; `None` in this process.
                pub fn host(&self) -> ::core::option::Option<&::vfun::Function> {
                    self.host.as_ref()
                }

                #call
            }
        }
    }

    /// How a program gets it.
    fn app_opening(&self) -> TokenStream {
        quote! {
            /// On the session's host; in this process where it has no such
            /// function for this client. A host whose function has another
            /// signature is an error, and so is every other refusal.
            #[cfg(feature = "app")]
            pub fn open(session: &::vfun::Session) -> ::vfun::Result<Function> {
                open_as(session, |request| request)
            }

            /// The same, with more wanted of it.
            #[cfg(feature = "app")]
            pub fn open_as(
                session: &::vfun::Session,
                wanted: impl ::core::ops::FnOnce(::vfun::FunctionRequest) -> ::vfun::FunctionRequest,
            ) -> ::vfun::Result<Function> {
                let host = ::vfun::offered(session, NAME, VERSION, SIGNATURE, wanted)?;
                Ok(Function { host })
            }

            /// On the host that `vfun::ConnectOptions` finds by itself; in this process where
            /// there is none, or none that offers it.
            #[cfg(feature = "app")]
            pub fn anywhere(app: &str) -> ::vfun::Result<Function> {
                match ::vfun::ConnectOptions::new(app).connect() {
                    Ok(session) => open(&session),
                    Err(::vfun::Error::NoHost { .. }) => Ok(Function::in_process()),
                    Err(e) => Err(e),
                }
            }
        }
    }

    /// The method `call` of a function of a session: for programs.
    fn app_call(&self) -> TokenStream {
        let (v, function) = (value(), &self.item.sig.ident);
        let (types, at) = (self.fixed_types(), self.offsets());
        let vars: Vec<_> = self.typed.fixed.iter().map(|a| &a.name).collect();
        let (tail_param, tail_var) = match &self.typed.tail {
            None => (quote!(), quote!()),
            Some(Arg { name, ty }) => (quote!(#name: &[#ty]), quote!(#name)),
        };
        let fill = match &self.typed.tail {
            None => quote!(let mut bytes = [0u8; ARGS.fixed];),
            Some(Arg { name, ty }) => quote! {
                let mut bytes = ::std::vec![0u8; ARGS.tail + #name.len() * ARGS.each];
                for (x, to) in #name.iter().zip(bytes[ARGS.tail..].chunks_exact_mut(ARGS.each)) {
                    <#ty as #v>::put(x, to);
                }
            },
        };
        let (output, host) = self.app_results();
        let here = quote!(super::#function(#(#vars,)* #tail_var));
        let here = match self.typed.fallible {
            false => quote!(Ok(#here)),
            true => quote! {
                #here.map_err(|e| ::vfun::Error::Driver {
                    code: ::vfun_function::OWN_ERROR,
                    sentence: e.to_string(),
                })
            },
        };
        quote! {
            /// Calls it and waits for what it gives.
            #[allow(clippy::too_many_arguments)]
            pub fn call(&self, #(#vars: #types,)* #tail_param) -> ::vfun::Result<#output> {
                let Some(host) = &self.host else {
                    return #here;
                };
                #[allow(unused_mut)]
                #fill
                #( <#types as #v>::put(&#vars, &mut bytes[#at..]); )*
                #host
            }
        }
    }

    /// What a call gives, and how it is had of the host.
    fn app_results(&self) -> (TokenStream, TokenStream) {
        let v = value();
        match &self.typed.output {
            Output::Unit => (
                quote!(()),
                quote! {
                    let len = host.call_into(&bytes, &mut [])?;
                    RESULTS.elements(len).map(|_| ()).ok_or_else(|| nonsense(len))
                },
            ),
            Output::Value(ty) => (
                quote!(#ty),
                quote! {
                    let mut room = [0u8; RESULTS.fixed];
                    let len = host.call_into(&bytes, &mut room)?;
                    match RESULTS.elements(len) {
                        Some(_) => <#ty as #v>::get(&room).map_err(|_| nonsense(len)),
                        None => Err(nonsense(len)),
                    }
                },
            ),
            Output::Vec(ty) => (
                quote!(::std::vec::Vec<#ty>),
                quote! {
                    let room = host.call(&bytes)?;
                    if RESULTS.elements(room.len()).is_none() {
                        return Err(nonsense(room.len()));
                    }
                    room.chunks_exact(RESULTS.each)
                        .map(|x| <#ty as #v>::get(x).map_err(|_| nonsense(room.len())))
                        .collect()
                },
            ),
        }
    }
}

/// The function, and a module of its name.
pub fn expand(item: &ItemFn, options: &Options) -> syn::Result<TokenStream> {
    let typed = Typed::of(item)?;
    let ident = &item.sig.ident;
    let name = options.name.as_ref().map_or_else(|| plain(ident), syn::LitStr::value);
    let parts = Parts { item, options, typed, name };
    let (constants, driver, app) = (parts.constants(), parts.driver(), parts.app());
    let vis = &item.vis;
    let title = format!(
        "The vFunction `{}`: what it is, and how it is called where a host has it.",
        parts.name
    );
    Ok(quote! {
        #item

        #[doc = #title]
        #vis mod #ident {
            #[allow(unused_imports)]
            use super::*;
            #constants
            #driver
            #app
        }
    })
}
