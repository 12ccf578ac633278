/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mast3r_retrieval.hpp: an index of pictures and lists of pairs, over mast3r.hpp.
 *
 *    auto found = engine.encode_retrieval_batch(pictures);
 *    mast3r::RetrievalIndex index(engine, "codebook.safetensors");
 *    index.add(found);
 *    auto scores = index.score(found);                    // found.size() x index.size()
 *    auto pairs = mast3r::scene_pairs(found.size(), "retrieval-20-10", scores);
 */
#ifndef MAST3R_RETRIEVAL_HPP
#define MAST3R_RETRIEVAL_HPP

#include "mast3r.hpp"

namespace mast3r {

/* Pictures to look up by what they have in common (ASMK). */
class RetrievalIndex {
 public:
  /* Of each picture the nfeat features of greatest attention count; -1: all. */
  RetrievalIndex(const MPSGraphEngine &engine, const std::string &codebook, double nfeat = 300) {
    auto job = detail::run(mast3r_submit_index_open, engine.c(), codebook.c_str(), nfeat);
    mast3r_index out = 0;
    check(mast3r_job_take_index(job->get(), &out));
    handle_ = std::make_unique<detail::Handle>(out, mast3r_index_close);
  }

  void add(const std::vector<RetrievalResult> &pictures) {
    const auto in = local(pictures);
    detail::run(mast3r_submit_index_add, handle_->get(), in.data(), in.size());
  }
  /* A row for each picture, a column for each of the index. */
  std::vector<float> score(const std::vector<RetrievalResult> &pictures) const {
    if (pictures.empty()) return {};
    const auto in = local(pictures);
    auto job = detail::run(mast3r_submit_index_score, handle_->get(), in.data(), in.size());
    mast3r_tensor out = 0;
    check(mast3r_job_take_scores(job->get(), &out));
    return GPUTensor(out).to_cpu();
  }
  /* The pictures of this index from number first on as a file, and those of such a file behind the ones
   * that are here. */
  void write(const std::string &path, size_t first = 0) const {
    detail::run(mast3r_submit_index_write, handle_->get(), first, path.c_str());
  }
  void merge(const std::string &path) { detail::run(mast3r_submit_index_merge, handle_->get(), path.c_str()); }
  size_t size() const {
    uint64_t n = 0;
    check(mast3r_index_length(handle_->get(), &n));
    return static_cast<size_t>(n);
  }

 private:
  static std::vector<mast3r_local_features> local(const std::vector<RetrievalResult> &pictures) {
    std::vector<mast3r_local_features> out;
    for (const auto &picture : pictures) {
      auto f = detail::sized<mast3r_local_features>();
      f.n = static_cast<int32_t>(picture.features.shape().at(0));
      f.dim = static_cast<int32_t>(picture.features.shape().at(1));
      f.features = picture.features.data(), f.attention = picture.attention.data();
      out.push_back(f);
    }
    return out;
  }
  std::unique_ptr<detail::Handle> handle_;
};

/* The pairs of n pictures that a scene graph wants; similarity, n x n, for retrieval graphs. */
inline std::vector<std::pair<int64_t, int64_t>> scene_pairs(size_t n, const std::string &graph,
                                                            const std::vector<float> &similarity = {},
                                                            bool symmetrize = false,
                                                            const std::string &prefilter = "") {
  if (n > INT32_MAX) throw ArgumentError("mast3r: too many pictures for a list of pairs");
  if (!similarity.empty() && similarity.size() != n * n)
    throw ShapeError("mast3r: similarity of " + std::to_string(similarity.size()) + " numbers, want " +
                     std::to_string(n * n));
  const std::vector<double> scores(similarity.begin(), similarity.end());
  auto o = detail::sized<mast3r_scene_options>();
  o.symmetrize = symmetrize, o.prefilter = prefilter.c_str();
  o.similarity = scores.empty() ? nullptr : scores.data();
  mast3r_tensor handle = 0;
  check(mast3r_scene_pairs(static_cast<int32_t>(n), graph.c_str(), &o, &handle));
  const auto flat = GPUTensor(handle).to_cpu<int64_t>();
  std::vector<std::pair<int64_t, int64_t>> out;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) out.emplace_back(flat[i], flat[i + 1]);
  return out;
}

}  // namespace mast3r

#endif /* MAST3R_RETRIEVAL_HPP */
