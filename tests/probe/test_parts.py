"""Names as profilers of torch 2.11 and 2.13 print them."""

import pytest

from nanodyno.probe.parts import part_of_kernel, part_of_operator

MATRIX = [
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nt",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(...)",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(...)",
    "triton_tem_fused_mm_12",
]
ATTENTION = [
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>",
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_kernel0_0",
    "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel)",
]
LOSS = [
    "triton_red_fused__log_softmax__to_copy_nll_loss_forward_21",
    "triton_red_fused__to_copy_prepare_softmax_online_view_17",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, LogSoftMaxForwardEpilogue>",
    "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(...)",
]
ELEMENTS = [
    "triton_per_fused_native_layer_norm_add_3",
    "triton_poi_fused__scaled_dot_product_flash_attention_backward_cat_5",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(...)",
]
OPTIMIZER = [
    "void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor>",
    "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, NormType::L2>>",
]


@pytest.mark.parametrize("name", MATRIX)
def test_a_library_of_matrix_products_is_known_by_its_names(name: str) -> None:
    assert part_of_kernel(name) == "matmul"


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_attention_whatever_it_is_built_with(name: str) -> None:
    assert part_of_kernel(name) == "attention"


@pytest.mark.parametrize("name", LOSS)
def test_what_touches_the_logits_is_the_loss(name: str) -> None:
    assert part_of_kernel(name) == "loss"


@pytest.mark.parametrize("name", ELEMENTS)
def test_a_fused_loop_is_element_wise_whatever_stood_beside_it(name: str) -> None:
    assert part_of_kernel(name) == "element-wise"


@pytest.mark.parametrize("name", OPTIMIZER)
def test_updating_and_clipping_are_the_optimizer(name: str) -> None:
    assert part_of_kernel(name) == "optimizer"


def test_a_cast_is_a_copy() -> None:
    name = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(...)>"
    assert part_of_kernel(name) == "copies"


def test_a_product_inside_attention_is_attention() -> None:
    assert part_of_operator("aten::bmm", "attention") == "attention"


def test_a_product_elsewhere_is_a_product() -> None:
    assert part_of_operator("aten::mm", "element-wise") == "matmul"


def test_a_copy_inside_the_update_is_the_optimizers() -> None:
    assert part_of_operator("aten::copy_", part_of_operator("Optimizer.step#AdamW.step", None)) == "optimizer"
