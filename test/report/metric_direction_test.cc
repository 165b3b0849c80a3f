// Which direction of a metric is better, by its name.
#include "lib/report/metric_direction.h"

#include <catch2/catch.hpp>

using bv::Direction;
using bv::is_accuracy;
using bv::is_of_class;
using bv::metric_direction;
using bv::names_training;

TEST_CASE("accuracies are better if they are higher") {
  for (const char* name :
       {"test/prec@1", "val/prec@5", "knn/prec@1_k=20", "acc", "Accuracy", "top1", "val/top5_acc",
        "coco/img2txt_recall@10", "recall@k", "z/cars_10shot-seed-1", "a/pets_5shot-seed-2-l2-0.01",
        "pairs/ncorrect_minibatch"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::up);
    CHECK(is_accuracy(name));
  }
  // A user's prefix may end without a '/'.
  for (const char* name : {"mae_prec@1", "xent_prec@1", "err_acc", "focal_loss_prec@5", "lr_top1",
                           "error_recall@5", "map_prec@1"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::up);
    CHECK(is_accuracy(name));
  }
  // What follows an @ may be the name of a class.
  for (const char* name :
       {"val/f1@bone_loss", "val/f1@time-scale", "seg/miou", "f1", "val/auroc", "psnr", "val/r2",
        "val/r2@0", "val/f1@cat", "val/ap_weighted", "val/auroc_macro", "acc_auroc",
        "val/kind=agree_k=5/avg", "kind=agree/min"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::up);
    CHECK_FALSE(is_accuracy(name));
  }
}

TEST_CASE("losses and errors are better if they are lower") {
  for (const char* name :
       {"training_loss", "test/loss", "test/auxloss", "val/ece", "val/mce", "nll", "top1_error",
        "acc_loss", "scale_loss", "rmse", "ppl", "val/xent", "val/kl", "val/kind=kl_t=2/avg",
        "kind=kl/avg", "d/kind=euclidean/max", "d/kind=logsoftmax_euclidean_epsilon=1e-06/min",
        "d/kind=l2/avg", "d/kind=hard/avg"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::down);
    CHECK_FALSE(is_accuracy(name));
  }
}

TEST_CASE("a metric of a single class has the class after an @") {
  for (const char* name : {"val/recall@cat", "f1@0", "a/ap@bone_loss"}) CHECK(is_of_class(name));
  for (const char* name : {"val/prec@1", "val_prec@5", "knn/prec@1_k=20", "val@8/acc", "loss"})
    CHECK_FALSE(is_of_class(name));
}

TEST_CASE("other metrics have no better side") {
  for (const char* name : {"",
                           "/",
                           "lr",
                           "global_schedule",
                           "epoch",
                           "img/sec",
                           "img/sec/core",
                           "num_params",
                           "uptime",
                           "confidence",
                           "l2_grads",
                           "loss_scale",
                           "loss/epoch",
                           "accuracy/size",
                           "distance/l2/avg",
                           "f",
                           "recall_seconds",
                           "0",
                           "@",
                           "d/kind=kl/all",
                           "d/kind=klx/avg",
                           "d/kind=/avg"}) {
    CAPTURE(name);
    CHECK(metric_direction(name) == Direction::none);
    CHECK_FALSE(is_accuracy(name));
  }
}

TEST_CASE("a name of training data has a word that begins with train or minitrain") {
  for (const char* name : {"train", "train_eval", "minitrain", "my-Training", "a/train[:500]"})
    CHECK(names_training(name));
  for (const char* name : {"", "test", "constrained", "pretrained", "maxitrain"})
    CHECK_FALSE(names_training(name));
}
