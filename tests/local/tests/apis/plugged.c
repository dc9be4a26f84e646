/* A PKCS#11 module with events of slots, which SoftHSM has none of: slot 5 has one when a file with the
   name "plugged" is in the folder of the process. It may not be waited for: it says that it cannot. */
#include <p11-kit/pkcs11.h>
#include <unistd.h>

static CK_RV nothing(void *arguments)
{
    (void)arguments;
    return CKR_OK;
}

static CK_RV wait(CK_FLAGS flags, CK_SLOT_ID *slot, void *reserved)
{
    (void)reserved;
    if (!(flags & CKF_DONT_BLOCK))
        return CKR_FUNCTION_NOT_SUPPORTED;
    if (unlink("plugged"))
        return CKR_NO_EVENT;
    *slot = 5;
    return CKR_OK;
}

static CK_FUNCTION_LIST all = {
    .version = {2, 40},
    .C_Initialize = nothing,
    .C_Finalize = nothing,
    .C_WaitForSlotEvent = wait,
};

CK_RV C_GetFunctionList(CK_FUNCTION_LIST **list)
{
    *list = &all;
    return CKR_OK;
}
