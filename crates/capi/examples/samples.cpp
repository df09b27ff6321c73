// Reads every sample of a data set and prints the shape and sum of bytes of each field.
// Usage: samples INDEX CACHE
#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "forebay.h"

namespace {

void check(int status)
{
    if (status != FOREBAY_OK) {
        throw std::runtime_error(std::string(forebay_status_name(status)) + ": " + forebay_error());
    }
}

struct Close {
    void operator()(forebay_dataset *dataset) const { forebay_close(dataset); }
};

using Dataset = std::unique_ptr<forebay_dataset, Close>;

Dataset open(const char *index, const char *cache)
{
    forebay_dataset *opened = nullptr;
    check(forebay_open(index, nullptr, cache, 60.0, &opened));
    return Dataset(opened);
}

void print(const Dataset &dataset, std::uint64_t sample)
{
    std::uint64_t bytes = 0;
    check(forebay_sample_bytes(dataset.get(), sample, &bytes));
    std::vector<unsigned char> buffer(bytes);
    check(forebay_read(dataset.get(), sample, buffer.data(), buffer.size()));
    for (std::size_t field = 0; field < forebay_fields(dataset.get()); ++field) {
        forebay_place place;
        check(forebay_field_place(dataset.get(), sample, field, &place));
        const auto first = buffer.begin() + static_cast<std::ptrdiff_t>(place.offset);
        const auto sum = std::accumulate(first, first + static_cast<std::ptrdiff_t>(place.bytes), 0ULL);
        std::printf("%llu %s %s [", static_cast<unsigned long long>(sample),
                    forebay_field_name(dataset.get(), field),
                    forebay_field_dtype(dataset.get(), field));
        for (std::uint64_t dim = 0; dim < place.dims; ++dim) {
            std::printf("%s%llu", dim == 0 ? "" : ",",
                        static_cast<unsigned long long>(place.shape[dim]));
        }
        std::printf("] %llu\n", sum);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s INDEX CACHE\n", argv[0]);
        return 2;
    }
    try {
        const Dataset dataset = open(argv[1], argv[2]);
        if (const char *warning = forebay_warning(dataset.get())) {
            std::fprintf(stderr, "no daemon: %s\n", warning);
        }
        std::vector<std::uint64_t> all(forebay_samples(dataset.get()));
        std::iota(all.begin(), all.end(), 0ULL);
        int complete = 0;
        check(forebay_stage(dataset.get(), all.data(), all.size(), &complete));
        for (const std::uint64_t sample : all) {
            print(dataset, sample);
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
