"""micro.py [JPEG_DIR]: the single measurements of a GPU that bound a training step, one line each."""
import glob, sys

import torch
import torch.nn.functional as F

torch.manual_seed(0)
dev = "cuda"
bf = torch.bfloat16


def ms(f, n=20):
    for _ in range(3):
        f()
    e = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
    e[0].record()
    for i in range(n):
        f()
        e[i + 1].record()
    torch.cuda.synchronize()
    return sorted(e[i].elapsed_time(e[i + 1]) for i in range(n))[n // 2]


def line(what, text):
    print(f"micro     {what}: {text}", flush=True)


def part(f):
    try:
        f()
    except Exception as error:  # a failure does not stop the others
        print(f"FAIL      micro {f.__name__}: {str(error).splitlines()[0][:160]}", flush=True)


def ceilings():
    a = torch.randn(1 << 30, device=dev, dtype=bf)
    b = torch.empty_like(a)
    t = ms(lambda: b.copy_(a))
    line("copy on the device", f"{4 * (1 << 30) / t / 1e9:.2f} TB/s read + written")
    x, y = (torch.randn(8192, 8192, device=dev, dtype=bf) for _ in range(2))
    line("matmul 8192^3", f"{2 * 8192**3 / ms(lambda: x @ y) / 1e9:.0f} TFLOP/s")


def gemms():
    m = 256 * 196
    for k, n in ((768, 768), (768, 2304), (768, 3072), (3072, 768)):
        x, w, b = torch.randn(m, k, device=dev, dtype=bf), torch.randn(n, k, device=dev, dtype=bf), torch.randn(n, device=dev, dtype=bf)
        g = torch.randn(m, n, device=dev, dtype=bf)
        f = 2 * m * k * n / 1e9
        line(f"gemm {m}x{k}x{n}", f"fwd+bias {f / ms(lambda: F.linear(x, w, b)):.0f}, dgrad {f / ms(lambda: g @ w):.0f}, wgrad {f / ms(lambda: g.t() @ x):.0f} "
             f"TFLOP/s; bias grad {ms(lambda: g.sum(0)):.3f} ms")
    x = torch.randn(m, 768, device=dev, dtype=bf)
    w, b = torch.randn(3072, 768, device=dev, dtype=bf), torch.randn(3072, device=dev, dtype=bf)
    apart = ms(lambda: F.gelu(F.linear(x, w, b), approximate="tanh"))
    fused = ms(lambda: torch._addmm_activation(b, x, w.t(), use_gelu=True))
    line("linear 768->3072 + gelu", f"two kernels {apart:.3f} ms, cublasLt epilogue {fused:.3f} ms")


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for s in (196, 197, 576):
        b = 256 if s < 500 else 32
        qkv = [torch.randn(b, s, 12, 64, device=dev, dtype=bf).transpose(1, 2).requires_grad_() for _ in range(3)]
        g = torch.randn(b, s, 12, 64, device=dev, dtype=bf).transpose(1, 2)
        told = []
        for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            with sdpa_kernel(backend):
                fwd = ms(lambda: F.scaled_dot_product_attention(*qkv))

                def both():
                    torch.autograd.grad(F.scaled_dot_product_attention(*qkv), qkv, g)
                told.append(f"{name} fwd {fwd:.3f} fwd+bwd {ms(both):.3f} ms")
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # as in bvtrain
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            told.append(f"flash deterministic fwd+bwd {ms(both):.3f} ms")
        torch.use_deterministic_algorithms(False)
        line(f"sdpa b {b} h 12 s {s} d 64", ", ".join(told))


def passes():
    x = torch.randn(256, 196, 768, device=dev)
    w, b = torch.ones(768, device=dev), torch.zeros(768, device=dev)
    xb = x.to(bf)
    ln = lambda: F.layer_norm(x, (768,), w, b)
    line("layer norm 256x196x768", f"fp32 in/out {ms(ln):.3f}, + cast to bf16 {ms(lambda: ln().to(bf)):.3f}, bf16 in/out "
         f"{ms(lambda: F.layer_norm(xb, (768,), w.to(bf), b.to(bf))):.3f} ms; residual fp32 + bf16 {ms(lambda: x + xb):.3f} ms")
    params = [torch.randn(n, device=dev) for n in [768 * 3072] * 36]
    for p in params:
        p.grad = torch.randn_like(p)
    opt = torch.optim.AdamW(params, fused=True)
    line("fused AdamW 85 M", f"{ms(opt.step):.3f} ms; zero_grad (memset) {ms(lambda: [p.grad.zero_() for p in params]):.3f} ms")


def transfers():
    gpu, pinned, page = torch.empty(1 << 28, device=dev), torch.empty(1 << 28).pin_memory(), torch.empty(1 << 28)
    r = lambda t: (1 << 30) / t / 1e6
    line("1 GiB", f"pinned H2D {r(ms(lambda: gpu.copy_(pinned, non_blocking=True), 5)):.1f}, D2H {r(ms(lambda: pinned.copy_(gpu, non_blocking=True), 5)):.1f}, "
         f"pageable H2D {r(ms(lambda: gpu.copy_(page), 5)):.1f}, D2H {r(ms(lambda: page.copy_(gpu), 5)):.1f} GB/s")


def jpeg():
    import torchvision
    files = sorted(glob.glob((sys.argv[1] if len(sys.argv) > 1 else ".") + "/*.JPEG"))
    if not files:
        return
    data = [torchvision.io.read_file(f) for f in files] * 4
    t = ms(lambda: torchvision.io.decode_jpeg(data, device=dev, mode=torchvision.io.ImageReadMode.RGB), 5)
    line("nvJPEG (torchvision)", f"{len(data) / t * 1e3:.0f} img/s over {len(data)} ImageNet JPEGs")


def convs():
    n = 256
    x = torch.randn(n, 256, 56, 56, device=dev, dtype=bf).contiguous(memory_format=torch.channels_last)
    w, b = torch.ones(256, device=dev, dtype=bf), torch.zeros(256, device=dev, dtype=bf)
    t = ms(lambda: F.group_norm(x, 32, w, b))
    line("group norm 256x256x56x56 NHWC bf16", f"{t:.3f} ms = {2 * x.nbytes / t / 1e9:.2f} TB/s of one read and one write (layout copy inside)")
    try:
        F.group_norm(x, 32, w.float(), b.float())
        line("group norm bf16 with float32 weights", "works")
    except RuntimeError as error:
        line("group norm bf16 with float32 weights", "THROWS: " + str(error).splitlines()[0])


for each in (ceilings, gemms, attention, passes, transfers, convs, jpeg):
    part(each)
