// Reads a file by C++ streams in several threads, and says what it found.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

static unsigned long long sum(const std::string &bytes) {
    unsigned long long hash = 1469598103934665603u;
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
    return hash;
}

int main(int, char **arguments) {
    const std::string name = arguments[1];
    const auto size = std::filesystem::file_size(name);
    std::vector<unsigned long long> found(4);
    std::vector<std::thread> threads;
    for (auto &into : found)
        threads.emplace_back([&into, &name] {
            std::ifstream stream(name, std::ios::binary);
            into = sum({std::istreambuf_iterator<char>(stream), {}});
        });
    for (auto &thread : threads) thread.join();
    for (auto each : found) std::cout << size << ' ' << each << '\n';
    std::ifstream stream(name, std::ios::binary);
    std::string line, part(1000, ' ');
    std::getline(stream, line);
    stream.seekg(-1500, std::ios::end);
    stream.read(part.data(), part.size());
    std::cout << sum(line) << ' ' << sum(part) << ' ' << stream.tellg() << '\n';
    return stream.good() ? 0 : 1;
}
