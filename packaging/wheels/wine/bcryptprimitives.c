/* SPDX-License-Identifier: Apache-2.0 */
/* Go asks Windows 8.1's bcryptprimitives.dll for random numbers; Wine 8 has no such file. */
#include <windows.h>

BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom, in advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
