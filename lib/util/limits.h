// The limits that parsers check before they take memory or stack for bytes that may come from
// anywhere: config files, data sets, weights files and checkpoints. docs/security.md lists them for
// users. Each comment says why the number is not larger, or where it comes from.
//
// Sizes that a format states are also compared with the size of the file; those checks need no
// number and are in the parsers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace bv::limits {

// ---- Config text

// One file, or one string. It is read as a whole, and its tree takes many times its size.
inline constexpr size_t kConfigBytes = size_t{1} << 20;
// config.yaml of a run that is compared. It is read as a whole before kConfigBytes is checked.
inline constexpr size_t kRunConfigBytes = size_t{4} << 20;
// Nested lists and mappings. Code that walks the tree recurses once per level.
inline constexpr size_t kConfigNesting = 64;
// Values with aliases expanded: twenty lines of aliases of aliases stand for a million values.
inline constexpr size_t kConfigValues = 1'000'000;
// Keys of one mapping. Each key is compared with all others, so the time is quadratic.
inline constexpr size_t kMappingKeys = 10'000;
// Files that include each other in a chain. Each takes stack, and kConfigBytes of text.
inline constexpr size_t kConfigIncludes = 16;
// A string of calls (pp). Each name in it is compared with all others, as in a mapping.
inline constexpr size_t kCallBytes = size_t{64} << 10;
// Nested lists, tuples and dicts of a call. The parser calls itself once for each level.
inline constexpr int kCallNesting = 32;

// ---- Patterns

// The text of a regular expression: the memory and the time to compile it grow with its length.
inline constexpr size_t kPatternBytes = 1000;
// The most characters of a pattern after every {n} is written out. The matcher calls itself once
// for each state that consumes no character; with this many it needs less than 4 MiB of stack.
inline constexpr size_t kPatternStates = 10'000;

// ---- JSON

// Nesting depth of brackets. Copying a value, comparing it or printing it recurses once per level.
inline constexpr int64_t kJsonNesting = 64;
// A JSON file of a data set, or a JSON member of a tar. Parsed, it takes up to 30 times that.
inline constexpr size_t kDataJsonBytes = size_t{16} << 20;

// ---- Images

// Height and width. It is libjpeg's own limit.
inline constexpr int64_t kImageSide = 65500;
// Height times width. A pixel takes 3 bytes, and up to 6 more while it is decoded: 2.4 GB in all.
inline constexpr int64_t kImagePixels = int64_t{1} << 28;
// The side of a square of kImagePixels.
inline constexpr int64_t kSquareSide = int64_t{1} << 14;
// Passes over a progressive JPEG. A few kilobytes can ask for thousands over a huge image.
inline constexpr int kJpegScans = 500;
// Parts of a JPEG before its pixels. Each may be as small as 4 bytes, so a file could hold
// millions.
inline constexpr int kJpegSegments = 4096;
// Bytes between two parts of a JPEG that belong to neither: libjpeg skips any number, a few at a
// time. A file with holes could have gigabytes.
inline constexpr int64_t kJpegStrayBytes = int64_t{1} << 24;
// Chunks of a PNG that are searched for EXIF or for the end. Each may be as small as 12 bytes;
// those with pixels usually have 8 KiB.
inline constexpr int kPngChunks = 1 << 20;
// Parts of a WebP that are searched for EXIF. Each may be as small as 8 bytes, so a file could hold
// millions.
inline constexpr int kWebpChunks = 64;
// Entries of EXIF that are searched for the orientation, of the 65,535 that the format allows.
inline constexpr int64_t kExifEntries = 1000;
// A chunk of a PNG other than its pixels, and all of these chunks together. A compressed text or
// colour profile can expand to a thousand times its size.
inline constexpr size_t kPngChunkBytes = size_t{1} << 26;

// ---- Files and records

// What is read in one piece: an image file, a record, a chunk of records, a member of a tar. Each
// thread of a loader may hold one.
inline constexpr uint64_t kRecordBytes = uint64_t{1} << 30;
// Records of a chunk. An empty one compresses to nearly nothing and takes 8 bytes of memory: 256
// MiB in all. A table of contents is such a chunk, with a record for each chunk of its file.
inline constexpr uint64_t kChunkRecords = uint64_t{1} << 25;
// Records of an ArrayRecord file, as its table of contents states them: their sum cannot overflow.
inline constexpr uint64_t kArrayRecordRecords = uint64_t{1} << 40;
// The part of a TFRecord that may hold a label when its index is made. One integer needs 14 bytes.
inline constexpr uint64_t kIntegerFeatureBytes = 32;
// Features of a tf.train.Example. An empty one has 2 bytes in the record and takes 40 in memory.
inline constexpr size_t kExampleFeatures = 100'000;
// Byte strings of one of these features. An empty one has 2 bytes and takes 48 in memory.
inline constexpr size_t kExampleTexts = size_t{1} << 20;
// A list of strings of one example. They are padded to equal lengths, so that one long string and
// many short ones take the product of length and number.
inline constexpr size_t kPaddedTextBytes = size_t{64} << 20;
// A feature that an op makes for one example, with a shape that comes from the data.
inline constexpr int64_t kFeatureBytes = int64_t{1} << 32;
// A list of examples to exclude. It is read as a whole.
inline constexpr size_t kSkipListBytes = size_t{1} << 30;
// A TensorBoard file of an earlier start. It is read as a whole.
inline constexpr size_t kEventFileBytes = size_t{1} << 30;
// A table that turns strings into numbers: a file of lines, or an array of an npz, read as a whole.
inline constexpr size_t kLookupTableBytes = size_t{1} << 30;

// ---- Compressed data

// The highest compression ratio of deflate: 258 bytes from 2 bits. A file that claims more is
// invalid.
inline constexpr uint64_t kDeflateRatio = 1032;
// Zeros compress 1000 to 1, but real data sets and models do not. A file that expands beyond both
// of these limits is a decompression bomb. A small file may consist of zeros.
inline constexpr uint64_t kUnpackedBytes = uint64_t{256} << 20;
inline constexpr uint64_t kUnpackedRatio = 200;
// The highest compression ratio of zstd: a block of 128 KiB from 4 bytes. Without this limit a few
// bytes could claim kRecordBytes, which are allocated first.
inline constexpr uint64_t kZstdRatio = 32768;

// ---- Tables of text and names

// A row of CSV or JSON Lines. A quote that is never closed would make the rest of a file one row.
inline constexpr size_t kRowBytes = size_t{16} << 20;
// Columns or values of a row. An empty cell is one byte of the file and takes 48 in memory.
inline constexpr size_t kColumns = 10'000;
// Lines of a file. The index keeps their numbers in 32 bits.
inline constexpr uint32_t kManifestLines = std::numeric_limits<uint32_t>::max();
// A key of JSON Lines with those around it, "a/b/c", or such a name of a TFDS feature. Each value
// repeats the names around it, so deep rows would take the product of length and number.
inline constexpr size_t kJsonKeyBytes = 1000;
// Different splits in a column. Each row's split is looked for among them, one by one.
inline constexpr size_t kSplits = 1000;
// Distinct class names, or class numbers. More than this are not class numbers but numbers of
// another kind. And a single label of 2^60 must not create a table of that many classes.
inline constexpr size_t kClasses = size_t{1} << 20;
// Class numbers that an evaluator takes: it keeps a few numbers for each class below the largest.
inline constexpr int64_t kEvaluatedClasses = 1 << 24;
// A file of class names for webdataset, one per line: kClasses names of 64 bytes.
inline constexpr size_t kClassNamesBytes = size_t{64} << 20;
// The same for CIFAR, whose files have less than 1 KiB.
inline constexpr size_t kCifarNamesBytes = size_t{64} << 10;
// How many names a name with braces expands to, and their bytes: {0..9} twenty times is 10^20
// names.
inline constexpr size_t kBraceNames = 1'000'000;
inline constexpr size_t kBraceNamesBytes = size_t{256} << 20;
// Nesting depth of braces. The parser recurses once per level.
inline constexpr int kBraceNesting = 32;

// ---- tar, webdataset

// A tar file: the index keeps places as 32-bit numbers of blocks of 512 bytes.
inline constexpr uint64_t kTarFileBytes = uint64_t{1} << 41;
// A long name, or the records of a pax header, which are read as a whole.
inline constexpr uint64_t kTarExtendedBytes = uint64_t{1} << 20;
// The name of a member. It is Linux's limit for a path.
inline constexpr size_t kTarNameBytes = 4096;
// Members of a sample. Their names are kept until it ends, and a tar whose names all begin alike
// would be one sample.
inline constexpr size_t kSampleMembers = 256;
// A member that holds a label: a number, or the name of a class.
inline constexpr uint64_t kLabelMemberBytes = 4096;
// Keys of a JSON member that become features unless the config names some.
inline constexpr size_t kJsonFeatures = 1000;
// Name suffixes whose members are counted separately. Every member may have a different one.
inline constexpr size_t kMemberTypes = 1000;

// ---- TFDS

// Nesting depth of features. The reader recurses once per level.
inline constexpr int kTfdsNesting = 32;
// Dimensions of a feature. A tensor with thousands of them could be described in a few kilobytes.
inline constexpr size_t kTfdsDimensions = 8;
// A file of class names next to features.json, one per line: kClasses names of 16 bytes.
inline constexpr size_t kTfdsNamesBytes = size_t{16} << 20;
// The names of a data set, a split and a file, and the template of file names. It is Linux's limit
// for the name of a file. Each of kTfdsFiles names may repeat the others.
inline constexpr size_t kFileNameBytes = 255;
// Files of all splits. A name is made for each, from as little as two bytes of JSON.
inline constexpr int64_t kTfdsFiles = 1'000'000;
// Examples of a file. The sum of kTfdsFiles such numbers cannot overflow.
inline constexpr int64_t kTfdsExamples = int64_t{1} << 40;

// ---- Checkpoints and weights

// The manifest of a checkpoint has 27 bytes for each MiB of tensors, and the class names. So this
// is enough for 4 TiB, or for a million names of 120 bytes. Parsed, it takes up to twenty times
// that.
inline constexpr size_t kCheckpointManifestBytes = size_t{128} << 20;
// The step of a checkpoint, and its numbers of examples: a double holds each exactly, and sums of
// them cannot overflow.
inline constexpr int64_t kStreamCount = int64_t{1} << 53;
// A file of a workdir that holds one line: DONE, LAST, .lock.
inline constexpr size_t kNoteBytes = 512;
// result.json of a run that is compared; it has some kilobytes.
inline constexpr size_t kRunResultBytes = size_t{16} << 20;
// The JSON header of safetensors, read or written. The format allows 100 MB; this limit holds about
// 80,000 tensors, which take a tenth of a second to parse.
inline constexpr uint64_t kSafetensorsHeaderBytes = uint64_t{8} << 20;
// Number of dimensions of an array. It was NumPy's own limit before 2.0.
inline constexpr size_t kArrayDimensions = 32;
// Elements of a tensor whose strides are checked: the product of its sides cannot overflow.
inline constexpr int64_t kTensorElements = int64_t{1} << 60;
// A string array of an npz, whose characters take 4 bytes each and pack 1000 to 1.
inline constexpr uint64_t kNpzTextBytes = uint64_t{64} << 20;
// What the weights in an npz may unpack to: kWeightsBytes, and kWeightsPerModel times the bytes of
// the model's parameters. A file for another model is rejected before it takes more.
inline constexpr uint64_t kWeightsBytes = uint64_t{256} << 20;
inline constexpr uint64_t kWeightsPerModel = 4;
// The assumed size of a model's parameters, for that limit, while the size is not known.
inline constexpr uint64_t kUnknownModelBytes = uint64_t{1} << 30;
// Blocks of a transformer that one array holds along its first axis. Each becomes a tensor with a
// name, and an array without elements can have any number of them.
inline constexpr int64_t kStackedBlocks = 10'000;
// Parts of a tensor's name, and its bytes. Names are copied whenever a layout is changed; those of
// big_vision have 5 parts.
inline constexpr int64_t kTensorNameLevels = 32;
inline constexpr size_t kTensorNameBytes = 1000;
// The model's arguments in the metadata of weights: their size in bytes, and the nesting depth of
// their JSON, which could exhaust the stack.
inline constexpr size_t kModelCardBytes = size_t{1} << 16;
inline constexpr int kModelCardNesting = 16;
// Parameters of a model that is built for weights from anywhere: more than a safetensors header can
// name.
inline constexpr uint64_t kModelParameters = 100'000;
// How many values such a model may have, beyond one for each byte of the weights. Position
// embeddings may be resampled for larger images.
inline constexpr uint64_t kMoreModelValues = uint64_t{1} << 26;
// Height, width and channels of a model's images: a model's memory can grow with their product.
inline constexpr int64_t kModelImageSide = int64_t{1} << 16;

}  // namespace bv::limits
