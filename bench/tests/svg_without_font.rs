//! An SVG needs no font. A test of its own, because a process keeps the font that a PNG
//! has once loaded.

mod sample;

use vfun_bench::report::chart;

#[test]
fn every_chart_is_drawn_without_a_font() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    chart::domains(&sample::domains(&sample::ALL, 1.0), &path("domains.svg")).unwrap();
    chart::latency(&sample::latency(), &path("latency.svg")).unwrap();
    chart::grain(&sample::grain(), &path("grain.svg")).unwrap();
    for name in ["domains.svg", "latency.svg", "grain.svg"] {
        let svg = std::fs::read_to_string(path(name)).unwrap();
        assert!(svg.contains("host-host") && svg.contains("Sample CPU"), "{name}");
    }
}
