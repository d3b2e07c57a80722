fn main() {
    let sums: Vec<_> = (0..8).map(|n| std::thread::spawn(move || (0..n).sum::<u64>())).collect();
    let total: u64 = sums.into_iter().map(|sum| sum.join().unwrap()).sum();
    assert_eq!(total, 56);
    println!("works");
}
