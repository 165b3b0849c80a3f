// Which direction of a metric is better, by its name.
#include "lib/report/metric_direction.h"

#include <catch2/catch.hpp>

using bv::Direction;
using bv::is_accuracy;
using bv::metric_direction;

TEST_CASE("accuracies are better if they are higher") {
  for (const char* name :
       {"test/prec@1", "val/prec@5", "knn/prec@1_k=20", "acc", "Accuracy", "top1", "val/top5_acc",
        "coco/img2txt_recall@10", "recall@k", "z/cars_10shot-seed-1", "a/pets_5shot-seed-2-l2-0.01",
        "pairs/ncorrect_minibatch"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::up);
    CHECK(is_accuracy(name));
  }
  // What follows an @ may be the name of a class.
  for (const char* name :
       {"val/f1@bone_loss", "val/f1@time-scale", "seg/miou", "f1", "val/auroc", "psnr", "val/r2",
        "val/r2@0", "val/f1@cat", "val/ap_weighted", "val/auroc_macro"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::up);
    CHECK_FALSE(is_accuracy(name));
  }
}

TEST_CASE("losses and errors are better if they are lower") {
  for (const char* name : {"training_loss", "test/loss", "test/auxloss", "val/ece", "val/mce",
                           "nll", "top1_error", "error_recall@5", "rmse", "ppl", "val/xent"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::down);
    CHECK_FALSE(is_accuracy(name));
  }
}

TEST_CASE("other metrics have no better side") {
  for (const char* name :
       {"", "/", "lr", "global_schedule", "epoch", "img/sec", "img/sec/core", "num_params",
        "uptime", "confidence", "l2_grads", "loss_scale", "loss/epoch", "accuracy/size",
        "distance/l2/avg", "f", "recall_seconds", "0", "@"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::none);
    CHECK_FALSE(is_accuracy(name));
  }
}
